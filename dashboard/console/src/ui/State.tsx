import './State.css'
import { Icon } from './Icon'

export type Tone = 'ok' | 'info' | 'wait' | 'warn' | 'crit' | 'idle'

/** Every state of anything, and how bad it is: the one table. */
const tones: Record<string, Tone> = {
  healthy: 'ok',
  active: 'ok',
  RUNNING: 'ok',
  completed: 'ok',
  enabled: 'ok',
  success: 'ok',
  ok: 'ok',
  running: 'info',
  leased: 'info',
  ready: 'info',
  STARTING: 'info',
  pending: 'wait',
  waiting: 'wait',
  delayed: 'wait',
  paused: 'warn',
  draining: 'warn',
  STOPPED: 'warn',
  STOPPING: 'warn',
  timed_out: 'warn',
  lagging: 'warn',
  'read-only': 'warn',
  'no quorum': 'warn',
  timeout: 'warn',
  failed: 'crit',
  FAILED: 'crit',
  unhealthy: 'crit',
  dlq: 'crit',
  failure: 'crit',
  error: 'crit',
  unavailable: 'crit',
  cancelled: 'idle',
  CANCELLED: 'idle',
  disabled: 'idle',
  COMPLETED: 'idle',
  skipped: 'idle',
  stopping: 'idle',
  unknown: 'idle',
}

export const toneOf = (state: string): Tone => tones[state] ?? 'info'

/** A state: icon, word in lower case and colour. */
export function State({ state, word }: { state: string; word?: string }) {
  const tone = toneOf(state)
  return (
    <span class={`state ${tone}`}>
      <Icon name={tone} size={12} />
      {word ?? state.replaceAll('_', ' ').toLowerCase()}
    </span>
  )
}
