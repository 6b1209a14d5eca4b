// The history of a run as bars: what was done when, what was waited for, what was tried again.

export interface Event {
  event_type: string
  step_name: string
  timestamp: number
}

/** What a step waits for. */
export type Wait = 'signal' | 'timer' | 'poll' | 'child'

export interface Segment {
  from: number
  to: number // of an open interval: now
  kind: 'work' | 'wait' | 'retry' | 'undo'
}

export interface Bar {
  step: string
  visit: number // from 1: a step may be taken several times
  from: number
  to: number
  open: boolean
  outcome: 'ok' | 'failed' | 'skipped' | 'open'
  segments: Segment[]
  events: number[] // places in the history
  retries: number
  waitedFor: Wait[]
}

const waits: Record<string, Wait | undefined> = { waiting_for_signal: 'signal', timer_started: 'timer', poll_scheduled: 'poll', awaiting_child: 'child' }
const waitEnds = new Set([
  'signal_received',
  'signal_matched',
  'signal_timeout',
  'timer_fired',
  'action_completed',
  'child_completed',
  'awaiting_action',
  'child_started',
  'plan_executor_start',
])
const bad = new Set([
  'action_not_found',
  'action_disabled',
  'child_not_found',
  'plan_not_found',
  'poll_exhausted',
  'plan_executor_exhausted',
  'compensation_failed',
])

const branchEnds = new Set(['action_completed', 'child_completed', 'plan_executor_success', 'plan_executor_exhausted'])
const isBranch = (step: string) => /\[.+\]$/.test(step)

/** Pairs the events of a history into a bar for each visit of a step. end is when what is still open ends: now, or the end of the run. */
export function bars(events: readonly Event[], end: number): Bar[] {
  const all: Bar[] = []
  const open = new Map<string, Bar>()
  const begin = (step: string, at: number, kind: Segment['kind']) => {
    const bar: Bar = {
      step,
      visit: all.filter(b => b.step === step && b.segments[0]!.kind !== 'undo').length + (kind === 'undo' ? 0 : 1),
      from: at,
      to: at,
      open: true,
      outcome: 'open',
      segments: [{ from: at, to: at, kind }],
      events: [],
      retries: 0,
      waitedFor: [],
    }
    all.push(bar)
    open.set(step, bar)
    return bar
  }
  const phase = (bar: Bar, at: number, kind: Segment['kind']) => {
    const last = bar.segments[bar.segments.length - 1]!
    last.to = at
    if (last.kind !== kind || kind === 'retry') bar.segments.push({ from: at, to: at, kind })
  }
  const finish = (bar: Bar, at: number, outcome: Bar['outcome']) => {
    bar.segments[bar.segments.length - 1]!.to = at
    Object.assign(bar, { to: at, open: false, outcome })
    open.delete(bar.step)
  }
  events.forEach((e, i) => {
    if (e.step_name === '') return
    const type = e.event_type
    const at = e.timestamp
    let bar = open.get(e.step_name)
    if (type === 'step_started' && bar && !bar.events.every(n => n === i)) finish(bar, at, bar.outcome)
    if (type === 'step_started') bar = begin(e.step_name, at, 'work')
    bar ??= begin(e.step_name, at, type.startsWith('compensation') ? 'undo' : 'work')
    bar.events.push(i)
    const wait = waits[type]
    if (wait) {
      phase(bar, at, 'wait')
      if (!bar.waitedFor.includes(wait)) bar.waitedFor.push(wait)
    } else if (type === 'step_retry' || type === 'plan_executor_retry') {
      bar.retries++
      phase(bar, at, 'retry')
    } else if (waitEnds.has(type) && bar.segments[bar.segments.length - 1]!.kind !== 'undo') phase(bar, at, 'work')
    if (bad.has(type)) bar.outcome = 'failed'
    // Branches of a parallel step have no event of their own for their end.
    if (isBranch(bar.step) && branchEnds.has(type)) finish(bar, at, bar.outcome === 'failed' ? 'failed' : 'ok')
    if (type === 'step_completed' || type === 'compensation_completed') finish(bar, at, bar.outcome === 'failed' ? 'failed' : 'ok')
    if (type === 'step_skipped') finish(bar, at, 'skipped')
    if (type === 'compensation_failed') finish(bar, at, 'failed')
    if (open.has(bar.step)) bar.to = at
  })
  for (const bar of open.values()) {
    bar.to = Math.max(bar.to, end)
    bar.segments[bar.segments.length - 1]!.to = bar.to
  }
  return all
}

/** A part of the time axis: shown in proportion, or folded because nothing begins or ends in it. */
export interface Stretch {
  from: number
  to: number
  folded: boolean
}

/** Cuts the axis: a stretch that is longer than a fifth of the whole is folded if nothing happens in it and no step is working. */
export function fold(events: readonly { timestamp: number }[], from: number, to: number, all: readonly Bar[] = []): Stretch[] {
  const works = (a: number, b: number) => all.some(bar => bar.segments.some(s => s.kind !== 'wait' && s.kind !== 'retry' && s.from < b && s.to > a))
  const span = to - from
  const times = [from, ...events.map(e => e.timestamp).filter(t => t > from && t < to), to].sort((a, b) => a - b)
  const found: Stretch[] = []
  let start = from
  for (let i = 1; i < times.length; i++) {
    const [a, b] = [times[i - 1]!, times[i]!]
    if (span <= 0 || b - a <= span / 5 || times.length <= 3 || works(a, b)) continue
    if (a > start) found.push({ from: start, to: a, folded: false })
    found.push({ from: a, to: b, folded: true })
    start = b
  }
  if (to > start || found.length === 0) found.push({ from: start, to, folded: false })
  return found
}

const foldedWidth = 0.06

/** Where a time is on the folded axis, from 0 to 1. */
export function position(stretches: readonly Stretch[], at: number): number {
  const folded = stretches.filter(s => s.folded).length
  const shown = stretches.filter(s => !s.folded).reduce((sum, s) => sum + s.to - s.from, 0)
  const rest = shown > 0 ? 1 - folded * foldedWidth : 0
  const each = shown > 0 ? foldedWidth : 1 / Math.max(1, folded)
  let x = 0
  for (const s of stretches) {
    const width = s.folded ? each : (rest * (s.to - s.from)) / shown
    if (at <= s.to) return x + (s.to > s.from ? Math.max(0, (at - s.from) / (s.to - s.from)) : 0) * width
    x += width
  }
  return 1
}
