import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { isJSON } from '../../lib/json'
import { keep, recall } from '../../lib/mount'
import { link } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { Dialog } from '../../ui/Dialog'
import { Editor } from '../../ui/Lazy'
import { Snippet } from '../../ui/Snippet'
import { toast } from '../../ui/toasts'

/** Has an action carried out; the run is then followed in the list. The last input is kept for each action. */
export function Invoke({ ns, name, close, opened }: { ns: string; name: string; close: () => void; opened: (run: string) => void }) {
  const kept = `input:${ns}/${name}`
  const [input, setInput] = useState(recall(kept, '{}'))
  const bad = input.trim() !== '' && !isJSON(input)
  const write = useWrite('POST /api/v1/actions/:name/invoke', ['/actions'], data => {
    keep(kept, input)
    toast('ok', `Run ${data.run_id} is ${data.status}.`, { href: link('actions', [name], { run: data.run_id }, ns), text: 'Open' })
    close()
    opened(data.run_id)
  })
  const submit = () => {
    if (!bad && !write.isPending) write.mutate({ args: { name, namespace: ns }, body: input })
  }
  return (
    <Dialog
      title={`Invoke ${name}`}
      close={close}
      submit={submit}
      footer={
        <>
          <button type="button" class="btn" onClick={close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={bad || write.isPending}>
            Invoke
          </button>
        </>
      }
    >
      <div class="field">
        <span class="label">Input, JSON</span>
        <Editor value={input} change={setInput} language="json" label="Input" submit={submit} />
        {bad && <span class="problem">This is no JSON.</span>}
      </div>
      {write.error && (
        <p class="crit" role="alert">
          {write.error.message}
        </p>
      )}
      <Snippet
        command={floe(['action', 'invoke'], inNamespace(ns), [name, input])}
        call={curl('POST', `/actions/${encodeURIComponent(name)}/invoke`, { namespace: ns === 'default' ? '' : ns }, input)}
      />
    </Dialog>
  )
}
