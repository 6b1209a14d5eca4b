import './Help.css'
import { shortcuts } from '../lib/prefs'
import { useStore } from '../lib/store'
import { Dialog } from './Dialog'
import { screens } from './Shell'
import { strings } from '../strings'

const say = strings.help

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
    </Dialog>
  )
}
