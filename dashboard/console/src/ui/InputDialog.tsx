import type { ComponentChildren } from 'preact'
import { isJSON } from '../lib/json'
import { strings } from '../strings'
import { Dialog } from './Dialog'
import { Editor } from './Lazy'
import { Snippet } from './Snippet'

/** Asks for the input of something that is then begun: JSON, or nothing. */
export function InputDialog(p: {
  title: string
  action: string
  input: string
  type: (input: string) => void
  pending: boolean
  error?: string | undefined
  close: () => void
  act: () => void
  command: string
  call: string
  children?: ComponentChildren
}) {
  const bad = p.input.trim() !== '' && !isJSON(p.input)
  const submit = () => {
    if (!bad && !p.pending) p.act()
  }
  return (
    <Dialog
      title={p.title}
      close={p.close}
      submit={submit}
      footer={
        <>
          <button type="button" class="btn" onClick={p.close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={bad || p.pending}>
            {p.action}
          </button>
        </>
      }
    >
      <div class="field">
        <span class="label">{strings.inputJSON}</span>
        <Editor value={p.input} change={p.type} language="json" label={strings.input} submit={submit} />
        {bad && <span class="problem">{strings.noJSON}</span>}
      </div>
      {p.children}
      {p.error && (
        <p class="crit" role="alert">
          {p.error}
        </p>
      )}
      <Snippet command={p.command} call={p.call} />
    </Dialog>
  )
}
