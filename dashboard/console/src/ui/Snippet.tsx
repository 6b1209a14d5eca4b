import './Snippet.css'
import { useState } from 'preact/hooks'
import { copy } from '../lib/clipboard'
import { strings } from '../strings'
import { Icon } from './Icon'

export function CopyButton({ text, label, quiet = true }: { text: string | (() => string); label?: string; quiet?: boolean }) {
  const [done, set] = useState(false)
  const press = async (e: Event) => {
    e.stopPropagation()
    if (await copy(typeof text === 'string' ? text : text())) {
      set(true)
      setTimeout(() => set(false), 1500)
    }
  }
  return (
    <button type="button" class={quiet ? 'btn quiet' : 'btn'} title={label ?? strings.copy} aria-label={label ?? strings.copy} onClick={press}>
      <Icon name={done ? 'ok' : 'copy'} />
      {!quiet && (done ? strings.copied : (label ?? strings.copy))}
    </button>
  )
}

/** The command and the call that are equal to what a dialog does. */
export function Snippet({ command, call }: { command?: string; call?: string }) {
  return (
    <div class="snippet">
      {command && <Line what={strings.commandLine} text={command} />}
      {call && <Line what={strings.httpCall} text={call} />}
    </div>
  )
}

function Line({ what, text }: { what: string; text: string }) {
  return (
    <div class="snippet-line">
      <span class="snippet-what">{what}</span>
      <pre tabIndex={0} aria-label={what}>
        {text}
      </pre>
      <CopyButton text={text} label={`${strings.copy}: ${what}`} />
    </div>
  )
}
