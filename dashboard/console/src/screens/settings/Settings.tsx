import { setMode } from '../../api/hooks'
import { Segmented } from '../../ui/Field'
import { Panel } from '../../ui/Panel'
import { cadence, density, shortcuts, theme, zone } from '../../lib/prefs'
import { useStore, type Store } from '../../lib/store'
import { strings } from '../../strings'

/** A setting that is one of a few values. */
function Choice<T extends string>({
  label,
  of,
  set = of.set,
  options,
}: {
  label: string
  of: Store<T>
  set?: (v: T) => void
  options: readonly (readonly [T, string])[]
}) {
  return (
    <>
      <dt>{label}</dt>
      <dd>
        <Segmented label={label} value={useStore(of)} change={v => set(v)} options={options} />
      </dd>
    </>
  )
}

const s = strings.settings

/** What this browser keeps for this mount. */
export default function Settings() {
  return (
    <div class="page">
      <div class="head">
        <h1 tabIndex={-1}>{s.title}</h1>
      </div>
      <Panel>
        <dl class="facts settings">
          <Choice label={s.theme} of={theme} options={s.themes} />
          <Choice label={s.rows} of={density} options={s.densities} />
          <Choice label={s.times} of={zone} options={s.zones} />
          <Choice label={s.refresh} of={cadence} set={setMode} options={s.cadences} />
          <dt>{s.keyboard}</dt>
          <dd>
            <label class="check">
              <input type="checkbox" checked={useStore(shortcuts)} onChange={e => shortcuts.set(e.currentTarget.checked)} /> {s.singleKeys}
            </label>
          </dd>
        </dl>
      </Panel>
      <p class="dim">{s.kept}</p>
    </div>
  )
}
