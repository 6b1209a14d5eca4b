import './Help.css'
import { call } from '../api/client'
import { download } from '../lib/clipboard'
import { shortcuts } from '../lib/prefs'
import { useStore } from '../lib/store'
import { Dialog } from './Dialog'
import { screens } from './Shell'
import { toast } from './toasts'
import { strings } from '../strings'

const say = strings.help

async function saveDescription() {
  try {
    const { data } = await call('GET /api/v1/openapi.json')
    download('openapi.json', JSON.stringify(data, null, 2))
  } catch (e) {
    toast('crit', (e as Error).message)
  }
}

export function Help({ close }: { close: () => void }) {
  const on = useStore(shortcuts)
  return (
    <Dialog title={say.title} close={close} wide>
      <div class="help">
        {[...say.keys, [say.goTo, screens.map(s => [`g ${s.key}`, s.title] as const)] as const].map(([title, rows]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl class="facts">
              {rows.map(([k, what]) => [
                <dt key={k}>
                  {k.split(' ').map((x, i) => (
                    <kbd key={i}>{x}</kbd>
                  ))}
                </dt>,
                <dd key={k + what}>{what}</dd>,
              ])}
            </dl>
          </section>
        ))}
      </div>
      <label class="check">
        <input type="checkbox" checked={on} onChange={e => shortcuts.set(e.currentTarget.checked)} /> {say.singleKeys}
      </label>
      <p>
        <button type="button" onClick={saveDescription}>
          {say.openAPI}
        </button>
      </p>
    </Dialog>
  )
}
