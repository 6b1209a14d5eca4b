import './Help.css'
import { shortcuts } from '../lib/prefs'
import { useStore } from '../lib/store'
import { Dialog } from './Dialog'
import { screens } from './Shell'

const keys: [string, [string, string][]][] = [
  [
    'Everywhere',
    [
      ['?', 'this help'],
      ['Ctrl K', 'go to anything'],
      ['/', 'filter'],
      ['r', 'refresh now'],
      ['p', 'pause and go on'],
      ['c', 'copy a link to this view'],
      ['Esc', 'close'],
    ],
  ],
  [
    'Lists',
    [
      ['j k', 'down, up (also arrows)'],
      ['Home End', 'first, last'],
      ['PgUp PgDn', 'a page'],
      ['Enter', 'open'],
      ['Space', 'tick'],
      ['[ ]', 'previous, next in the details'],
    ],
  ],
  [
    'Doing',
    [
      ['n', 'new'],
      ['e', 'edit'],
      ['Del', 'delete'],
      ['Ctrl Enter', 'run, submit'],
    ],
  ],
]

export function Help({ close }: { close: () => void }) {
  const on = useStore(shortcuts)
  return (
    <Dialog title="Keyboard" close={close} wide>
      <div class="help">
        {[...keys, ['Go to', screens.map(s => [`g ${s.key}`, s.title])] as [string, [string, string][]]].map(([title, rows]) => (
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
        <input type="checkbox" checked={on} onChange={e => shortcuts.set(e.currentTarget.checked)} /> Single-key shortcuts
      </label>
    </Dialog>
  )
}
