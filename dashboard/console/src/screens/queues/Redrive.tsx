import { useState } from 'preact/hooks'
import { useWrite } from '../../api/hooks'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { queues as say } from '../../strings/queues'
import { Field } from '../../ui/Field'
import { FormDialog } from '../../ui/FormDialog'
import { Sentence } from '../../ui/Sentence'
import { toast } from '../../ui/toasts'

/** Requeues all dead letters of a queue, or those with a text in them. */
export function Redrive({ ns, queue, dead, close }: { ns: string; queue: string; dead: number; close: () => void }) {
  const [contains, setContains] = useState('')
  const write = useWrite('POST /api/v1/queues/:name/dlq/redrive', ['/queues'], data => {
    toast('ok', say.redriven(data.requeued))
    close()
  })
  const body = JSON.stringify({ contains })
  return (
    <FormDialog
      title={say.redriveTitle(queue)}
      action={say.redriveAll(contains !== '')}
      write={write}
      close={close}
      act={() => write.mutate({ args: { name: queue, namespace: ns }, body })}
      command={floe(['queue', 'dlq', 'requeue'], { ...inNamespace(ns), ...(contains ? { contains } : { all: true }) }, [queue])}
      call={curl('POST', `/queues/${encodeURIComponent(queue)}/dlq/redrive`, { namespace: ns }, body)}
    >
      <Field label={say.contains} hint={say.containsHint}>
        <input class="input" value={contains} spellcheck={false} onInput={e => setContains(e.currentTarget.value)} />
      </Field>
      <p>
        <Sentence of={contains ? say.willRedriveSome : say.willRedrive(dead)} put={{ queue: <code>{queue}</code>, ns: <code>{ns}</code> }} />
      </p>
    </FormDialog>
  )
}
