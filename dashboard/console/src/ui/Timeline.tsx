import './Timeline.css'
import { serverNow } from '../api/client'
import { duration, timeOfDay } from '../lib/format'
import { useZone } from '../lib/prefs'
import { bars, fold, position, type Bar, type Event } from '../lib/timeline'
import { useNow } from './Panel'
import { strings } from '../strings'
import { timeline as say } from '../strings/workflows'

const words = strings.words

interface Props {
  events: readonly Event[]
  from: number
  to: number // 0: still open
  failed: ReadonlySet<string> // steps whose last outcome is no success: events do not say it
  selected: string
  select: (step: string) => void
}

const isUndo = (b: Bar) => b.segments[0]?.kind === 'undo'

/** A bar for each step that was taken: work, waits, what was tried again. Long idle times are folded. */
export function Timeline({ events, from, to, failed, selected, select }: Props) {
  useNow(to === 0 ? 1000 : 60_000)
  const zone = useZone()
  const end = Math.max(to || serverNow(), from + 1)
  const all = bars(events, end)
  for (const step of failed) {
    const last = all.findLast(b => b.step === step && !isUndo(b))
    if (last && !last.open) last.outcome = 'failed'
  }
  const axis = fold(events, from, end, all)
  const x = (at: number) => 100 * position(axis, Math.min(Math.max(at, from), end))
  if (all.length === 0) return <p class="dim">{say.nothingBegun}</p>
  return (
    <div class="timeline">
      <div class="timeline-axis" aria-hidden="true">
        <span>{timeOfDay(from, zone, true)}</span>
        {axis.map(
          (s, i) =>
            s.folded && (
              <span key={i} class="timeline-fold-label" style={{ left: `${(x(s.from) + x(s.to)) / 2}%` }}>
                ⋯ {duration(s.to - s.from)}
              </span>
            ),
        )}
        {!axis[axis.length - 1]?.folded && <span>{to ? timeOfDay(to, zone, true) : words.now}</span>}
      </div>
      <ol>
        {all.map((b, i) => (
          <li key={i}>
            <button
              class={selected === b.step ? 'timeline-row on' : 'timeline-row'}
              aria-pressed={selected === b.step}
              onClick={() => select(selected === b.step ? '' : b.step)}
            >
              <span class="timeline-name clip">
                {b.step === '_start' ? words.startStep : b.step}
                {isUndo(b) && <span class="dim"> {say.kinds.undo}</span>}
                {b.visit > 1 && !isUndo(b) && <span class="dim"> ×{b.visit}</span>}
              </span>
              <span class="timeline-track" aria-hidden="true">
                {axis.map((s, n) => s.folded && <i key={`f${n}`} class="timeline-fold" style={{ left: `${x(s.from)}%`, width: `${x(s.to) - x(s.from)}%` }} />)}
                {b.segments.map((s, n) => (
                  <i
                    key={n}
                    class={`timeline-bar ${s.kind} ${b.outcome}`}
                    title={`${say.kinds[s.kind]} ${duration(s.to - s.from)}`}
                    style={{ left: `${x(s.from)}%`, width: `max(3px, ${x(s.to) - x(s.from)}%)` }}
                  />
                ))}
              </span>
              <span class={`timeline-what ${b.outcome === 'failed' ? 'crit' : b.outcome === 'open' && to === 0 ? 'info' : 'dim'}`}>
                {duration(b.to - b.from)}
                {b.retries > 0 && say.tried(b.retries + 1)}
                {b.waitedFor.length > 0 && say.waitedFor(b.waitedFor.map(w => say.waits[w]).join(', '))}
                {b.outcome !== 'ok' && ` · ${b.outcome === 'open' && to > 0 ? say.cutOff : say.outcomes[b.outcome]}`}
              </span>
            </button>
          </li>
        ))}
      </ol>
      <div class="timeline-legend dim" aria-hidden="true">
        <span>
          <i class="timeline-bar work ok" /> {say.kinds.work}
        </span>
        <span>
          <i class="timeline-bar wait ok" /> {say.kinds.wait}
        </span>
        <span>
          <i class="timeline-bar retry ok" /> {say.kinds.retry}
        </span>
        <span>
          <i class="timeline-bar undo ok" /> {say.kinds.undo}
        </span>
      </div>
    </div>
  )
}
