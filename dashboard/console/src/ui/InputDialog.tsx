import type { ComponentChildren } from 'preact'
import { isJSON } from '../lib/json'
import { strings } from '../strings'
import { FormDialog, type Writing } from './FormDialog'
import { Editor } from './Lazy'

/** Asks for the input of something that is then begun: JSON, or nothing. */
export function InputDialog(p: {
  title: string
  action: string
  input: string
  type: (input: string) => void
  write: Writing
  close: () => void
  act: () => void
  command: string
  call: string
  children?: ComponentChildren
}) {
  const bad = p.input.trim() !== '' && !isJSON(p.input)
  return (
    <FormDialog title={p.title} action={p.action} wrong={bad} write={p.write} close={p.close} act={p.act} command={p.command} call={p.call}>
      <div class="field">
        <span class="label">{strings.inputJSON}</span>
        <Editor
          value={p.input}
          change={p.type}
          language="json"
          label={strings.input}
          submit={() => {
            if (!bad && !p.write.isPending) p.act()
          }}
        />
        {bad && <span class="problem">{strings.noJSON}</span>}
      </div>
      {p.children}
    </FormDialog>
  )
}
