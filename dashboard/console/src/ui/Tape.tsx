import './Tape.css'
import { useState } from 'preact/hooks'
import { bytes, count, dateTime, timeOfDay } from '../lib/format'
import { useZone } from '../lib/prefs'
import { strings } from '../strings'

export interface Cursor {
  name: string
  at: number // ms
}

interface Props {
  from: number
  step: number
  values: readonly number[]
  unit: 'records' | 'bytes'
  cursors: readonly Cursor[]
  selected: { from: number; to: number } | null
  select: (range: { from: number; to: number } | null) => void
  label: string
  row?: string // its name, where it is one of several below each other
}

const height = 72
const say = strings.tape

/** Time in buckets: how much came when, and how far each reader is. A drag selects; the arrows move by a bucket. */
export function Tape({ from, step, values, unit, cursors, selected, select, label, row }: Props) {
  const zone = useZone()
  const [hover, setHover] = useState<number | null>(null)
  const [drag, setDrag] = useState<number | null>(null)
  const n = Math.max(1, values.length)
  const most = Math.max(1, ...values)
  const to = from + n * step
  const show = (v: number) => (unit === 'bytes' ? bytes(v) : count(v))
  const what = (v: number) => (unit === 'bytes' ? bytes(v) : say.records(count(v)))
  const bucket = (e: PointerEvent) => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect()
    return Math.max(0, Math.min(n - 1, Math.floor(((e.clientX - box.left) / box.width) * n)))
  }
  const range = (a: number, b: number) => select({ from: from + Math.min(a, b) * step, to: from + (Math.max(a, b) + 1) * step })
  const first = selected ? Math.round((selected.from - from) / step) : -1
  const last = selected ? Math.round((selected.to - from) / step) - 1 : -1
  const ticks = cursors.filter(c => c.at >= from && c.at <= to)
  return (
    <div class={row === undefined ? 'tape' : 'tape tape-row'}>
      {row === undefined ? (
        <div class="tape-head">
          <span class="dim">
            {hover === null
              ? say.between(what(values.reduce((a, b) => a + b, 0)), dateTime(from, zone).slice(0, 19), dateTime(to, zone).slice(11, 19))
              : say.at(timeOfDay(from + hover * step, zone), timeOfDay(from + (hover + 1) * step, zone), what(values[hover] ?? 0))}
          </span>
          {selected && (
            <button class="btn quiet" onClick={() => select(null)}>
              {say.clear}
            </button>
          )}
          <span class="dim push">{say.most(show(most))}</span>
        </div>
      ) : (
        <span class="tape-name dim">{row}</span>
      )}
      <div
        class="tape-plot"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={n - 1}
        aria-valuenow={Math.max(0, first)}
        aria-valuetext={selected ? say.selected(timeOfDay(selected.from, zone), timeOfDay(selected.to, zone), show(values[Math.max(0, first)] ?? 0)) : say.none}
        onPointerMove={e => {
          const b = bucket(e)
          setHover(b)
          if (drag !== null) range(drag, b)
        }}
        onPointerLeave={() => setHover(null)}
        onPointerDown={e => {
          const b = bucket(e)
          ;(e.currentTarget as HTMLElement).setPointerCapture(e.pointerId)
          setDrag(b)
          range(b, b)
        }}
        onPointerUp={() => setDrag(null)}
        onKeyDown={e => {
          const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0
          if (e.key === 'Escape' && selected) select(null)
          else if (by === 0) return
          else {
            const b = Math.max(0, Math.min(n - 1, (first < 0 ? (by > 0 ? -1 : n) : first) + by))
            range(b, b)
          }
          e.preventDefault()
          e.stopPropagation()
        }}
      >
        <svg viewBox={`0 0 ${n} ${height}`} preserveAspectRatio="none" aria-hidden="true">
          {values.map(
            (v, i) =>
              v > 0 && (
                <rect
                  key={i}
                  class={i >= first && i <= last ? 'tape-bar on' : 'tape-bar'}
                  x={i + 0.08}
                  width={0.84}
                  y={height - Math.max(2, (v / most) * height)}
                  height={Math.max(2, (v / most) * height)}
                />
              ),
          )}
          {selected && <rect class="tape-selected" x={first} width={Math.max(0, last - first + 1)} y={0} height={height} />}
        </svg>
        {ticks.map((c, i) => (
          <span key={c.name} class="tape-cursor" style={{ left: `${(100 * (c.at - from)) / (to - from)}%` }} title={say.cursor(c.name, dateTime(c.at, zone))}>
            <i class={(c.at - from) / (to - from) > 0.8 ? 'left' : ''} style={{ top: `${(i % 4) * 16}px` }}>
              {c.name}
            </i>
          </span>
        ))}
      </div>
    </div>
  )
}
