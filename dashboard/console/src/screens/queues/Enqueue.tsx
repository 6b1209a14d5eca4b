import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { link } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { queues as say } from '../../strings/queues'
import { Dialog } from '../../ui/Dialog'
import { Field } from '../../ui/Field'
import { Snippet } from '../../ui/Snippet'
import { toast } from '../../ui/toasts'
import { urgency } from './QueueDetail'

const words = strings.words

/** Adds a message to a queue, or makes one with it. */
export function Enqueue({ ns, queue, close, opened }: { ns: string; queue?: string; close: () => void; opened: (queue: string) => void }) {
  const [name, setName] = useState(queue ?? '')
  const [payload, setPayload] = useState('')
  const [priority, setPriority] = useState('100')
  const [delay, setDelay] = useState('0')
  const p = Number(priority)
  const d = Number(delay)
  const badPriority = !/^\d+$/.test(priority) || p > 255
  const badDelay = !/^\d+(\.\d+)?$/.test(delay)
  const wrong = name === '' || badPriority || badDelay
  const query: Record<string, string> = { namespace: ns, priority: p === 100 ? '' : priority, delay_ms: d > 0 ? String(Math.round(d * 1000)) : '' }
  const write = useWrite('POST /api/v1/queues/:name', ['/queues', '/namespaces'], data => {
    toast('ok', say.messageAdded(data.seq, name), { href: link('queues', [name], {}, ns), text: words.open })
    close()
    opened(name)
  })
  const submit = () => {
    if (!wrong && !write.isPending) write.mutate({ args: { name, ...query }, body: payload })
  }
  return (
    <Dialog
      title={queue ? say.enqueueTo(queue) : say.enqueueIn(ns)}
      close={close}
      submit={submit}
      footer={
        <>
          <button type="button" class="btn" onClick={close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={wrong || write.isPending}>
            {words.enqueue}
          </button>
        </>
      }
    >
      {!queue && (
        <Field label={words.queue}>
          <input class="input" value={name} spellcheck={false} autocomplete="off" onInput={e => setName(e.currentTarget.value)} />
        </Field>
      )}
      <Field label={words.payload}>
        <textarea class="area" rows={8} value={payload} spellcheck={false} onInput={e => setPayload(e.currentTarget.value)} />
      </Field>
      <div class="row gap-16 wrap">
        <Field label={words.priority} hint={say.priorityHint} problem={badPriority ? say.badPriority : undefined}>
          <span class="row">
            <input class="input num" size={6} inputMode="numeric" value={priority} onInput={e => setPriority(e.currentTarget.value)} />
            <span class="dim">{badPriority ? '' : urgency(p)}</span>
          </span>
        </Field>
        <Field label={words.delay} hint={words.secondsUnit} problem={badDelay ? say.badDelay : undefined}>
          <input class="input num" size={8} inputMode="decimal" value={delay} onInput={e => setDelay(e.currentTarget.value)} />
        </Field>
      </div>
      {write.error && (
        <p class="crit" role="alert">
          {write.error.message}
        </p>
      )}
      <Snippet
        command={floe(['queue', 'enqueue'], { ...inNamespace(ns), priority: p === 100 ? undefined : priority, delay: d > 0 ? `${d}s` : undefined }, [
          name || 'NAME',
          payload,
        ])}
        call={curl('POST', `/queues/${encodeURIComponent(name || 'NAME')}`, { ...query, namespace: ns === 'default' ? '' : ns }, payload)}
      />
    </Dialog>
  )
}
