import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { link } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { toast } from '../../ui/toasts'

const words = strings.words

/** Appends a record to a stream. */
export function Append({ ns, stream, close }: { ns: string; stream: string; close: () => void }) {
  const [key, setKey] = useState('')
  const [payload, setPayload] = useState('')
  const write = useWrite('POST /api/v1/streams/:name/messages', ['/streams'], data => {
    const id = data.ids[0] ?? ''
    toast('ok', say.isAppended(id), { href: link('streams', [stream], { msg: id }, ns), text: words.open })
    close()
  })
  const body = JSON.stringify({ messages: [{ ...(key ? { key } : {}), payload }] })
  return (
    <FormDialog
      title={say.appendTo(stream)}
      action={words.append}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name: stream, namespace: ns }, body })}
      command={floe(['stream', 'append'], { ...inNamespace(ns), key }, [stream, payload])}
      call={curl('POST', `/streams/${encodeURIComponent(stream)}/messages`, { namespace: ns }, body)}
    >
      <Field label={words.payload}>
        <textarea class="area" rows={8} value={payload} spellcheck={false} onInput={e => setPayload(e.currentTarget.value)} />
      </Field>
      <Field label={words.key} hint={say.keyHint}>
        <input class="input mono" value={key} spellcheck={false} autocomplete="off" onInput={e => setKey(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  )
}
