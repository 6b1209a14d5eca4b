import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { keep, recall } from '../../lib/mount'
import { link } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { InputDialog } from '../../ui/InputDialog'
import { toast } from '../../ui/toasts'
import { strings } from '../../strings'
import { actions as say } from '../../strings/actions'

const words = strings.words

/** Has an action carried out; the run is then followed in the list. The last input is kept for each action. */
export function Invoke({ ns, name, close, opened }: { ns: string; name: string; close: () => void; opened: (run: string) => void }) {
  const kept = `input:${ns}/${name}`
  const [input, setInput] = useState(recall(kept, '{}'))
  const write = useWrite('POST /api/v1/actions/:name/invoke', ['/actions'], data => {
    keep(kept, input)
    toast('ok', say.invoked(data.run_id, data.status), { href: link('actions', [name], { run: data.run_id }, ns), text: words.open })
    close()
    opened(data.run_id)
  })
  return (
    <InputDialog
      title={say.invokeTitle(name)}
      action={words.invoke}
      input={input}
      type={setInput}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name, namespace: ns }, body: input })}
      command={floe(['action', 'invoke'], inNamespace(ns), [name, input])}
      call={curl('POST', `/actions/${encodeURIComponent(name)}/invoke`, { namespace: ns === 'default' ? '' : ns }, input)}
    />
  )
}
