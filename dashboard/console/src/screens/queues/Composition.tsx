import './Composition.css'

import { queues as say } from '../../strings/queues'
import type { Queue } from './Queues'

/** What a queue holds, by state, in proportion. */
export function Composition({ queue: r, tall }: { queue: Queue; tall?: boolean }) {
  const parts = [
    ['ready', r.available],
    ['delayed', r.ready - r.available],
    ['leased', r.inflight],
    ['dead', r.dlq_count],
  ] as const
  const all = parts.reduce((sum, [, n]) => sum + n, 0)
  return (
    <span class={tall ? 'mix tall' : 'mix'} role="img" aria-label={parts.map(([what, n]) => say.holds[what](n)).join(', ')}>
      {all > 0 && parts.map(([what, n]) => n > 0 && <i key={what} class={`mix-${what}`} title={say.holds[what](n)} style={{ flexGrow: String(n) }} />)}
    </span>
  )
}
