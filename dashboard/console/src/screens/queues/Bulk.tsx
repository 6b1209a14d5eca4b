import { useRef, useState } from 'preact/hooks'
import { call, type ApiError } from '../../api/client'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { Confirm, Dialog } from '../../ui/Dialog'
import { strings } from '../../strings'
import { queues as say } from '../../strings/queues'
import { Sentence } from '../../ui/Sentence'
import { Snippet } from '../../ui/Snippet'

const words = strings.words

/** Does the same to many dead letters, one after another; can be stopped, and says which failed and why. */
export function Bulk({ ns, queue, seqs, what, close }: { ns: string; queue: string; seqs: string[]; what: 'requeue' | 'delete'; close: () => void }) {
  const [done, setDone] = useState(0)
  const [failed, setFailed] = useState<{ seq: string; error: string }[]>([])
  const [state, setState] = useState<'asking' | 'running' | 'over'>('asking')
  const stopped = useRef(false)
  const path = `/queues/${encodeURIComponent(queue)}/dlq`
  const run = async () => {
    setState('running')
    for (const [i, seq] of seqs.entries()) {
      if (stopped.current) break
      try {
        await call(what === 'requeue' ? 'POST /api/v1/queues/:name/dlq/:seq/requeue' : 'DELETE /api/v1/queues/:name/dlq/:seq', {
          name: queue,
          seq,
          namespace: ns,
        })
      } catch (e) {
        setFailed(f => [...f, { seq, error: (e as Error).message }])
        // Without a session the others would be refused as well.
        if ((e as ApiError).status === 401) stopped.current = true
      }
      setDone(i + 1)
    }
    setState('over')
  }
  if (state === 'asking') {
    return (
      <Confirm
        title={what === 'requeue' ? say.askRequeueMany(seqs.length) : say.askDeleteMany(seqs.length)}
        action={what === 'requeue' ? say.requeueMany(seqs.length) : say.deleteMany(seqs.length)}
        danger={what === 'delete'}
        pending={false}
        close={close}
        act={() => void run()}
      >
        <p>
          <Sentence
            of={what === 'requeue' ? say.willBeReady(seqs.length) : say.willBeDeleted(seqs.length)}
            put={{ queue: <code>{queue}</code>, ns: <code>{ns}</code> }}
          />
        </p>
        <Snippet
          command={seqs.map(seq => floe(['queue', 'dlq', what], inNamespace(ns), [queue, seq])).join('\n')}
          call={seqs
            .map(seq => (what === 'requeue' ? curl('POST', `${path}/${seq}/requeue`, { namespace: ns }) : curl('DELETE', `${path}/${seq}`, { namespace: ns })))
            .join('\n')}
        />
      </Confirm>
    )
  }
  return (
    <Dialog
      title={state === 'over' ? words.done : words.working}
      close={() => (state === 'over' ? close() : (stopped.current = true))}
      footer={
        state === 'over' ? (
          <button type="button" class="btn primary" onClick={close}>
            {strings.close}
          </button>
        ) : (
          <button type="button" class="btn" onClick={() => (stopped.current = true)}>
            {words.stop}
          </button>
        )
      }
    >
      <p role="status">
        {(what === 'requeue' ? say.requeued : say.deleted)(done - failed.length, seqs.length)}
        {failed.length > 0 && <span class="crit">{say.failedMany(failed.length)}</span>}.
      </p>
      <span class="bar" aria-hidden="true">
        <i style={{ width: `${(100 * done) / seqs.length}%` }} />
      </span>
      {failed.length > 0 && (
        <ul>
          {failed.slice(0, 100).map(f => (
            <li key={f.seq}>
              <code>{f.seq}</code> {f.error}
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  )
}
