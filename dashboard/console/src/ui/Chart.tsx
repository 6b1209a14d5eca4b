import 'uplot/dist/uPlot.min.css'
import './Chart.css'
import uPlot from 'uplot'
import { useEffect, useRef } from 'preact/hooks'
import { dateTime } from '../lib/format'
import { theme, useZone } from '../lib/prefs'
import { useStore } from '../lib/store'

export interface Line {
  name: string
  points: readonly { timestamp: number; value: number }[]
}

interface Props {
  lines: readonly Line[]
  from: number // ms
  to: number
  label: string
  height?: number
  sync?: string // charts of one name share a cursor
  zoom?: (from: number, to: number) => void
  back?: () => void
  hidden?: ReadonlySet<string>
  legend?: boolean
}

/** A longer pause than so many usual ones is a gap, not a line. */
const gapFactor = 4

function usualStep(l: Line): number {
  const steps = l.points
    .slice(1)
    .map((p, i) => p.timestamp - l.points[i]!.timestamp)
    .filter(s => s > 0)
    .sort((a, b) => a - b)
  return steps[Math.floor(steps.length / 2)] ?? 0
}

/** Points of all lines on one axis of time; where a line has none it is null, and where it pauses there is a gap. */
export function aligned(lines: readonly Line[]): [number[], ...(number | null | undefined)[][]] {
  const all = new Set(lines.flatMap(l => l.points.map(p => p.timestamp)))
  // In a gap of a line there may be no time of another: one behind its beginning is added, where it is null.
  for (const l of lines) {
    const usual = usualStep(l)
    l.points.forEach((p, i) => {
      const next = l.points[i + 1]
      if (next && usual > 0 && next.timestamp - p.timestamp > gapFactor * usual) all.add(p.timestamp + usual)
    })
  }
  const times = [...all].sort((a, b) => a - b)
  const place = new Map(times.map((t, i) => [t, i]))
  const columns = lines.map(l => {
    const column: (number | null | undefined)[] = new Array(times.length).fill(undefined)
    const usual = usualStep(l)
    l.points.forEach((p, i) => {
      const at = place.get(p.timestamp)!
      column[at] = p.value
      const before = l.points[i - 1]
      if (before && usual > 0 && p.timestamp - before.timestamp > gapFactor * usual) {
        const first = place.get(before.timestamp)! + 1
        if (first < at) column[first] = null
      }
    })
    return column
  })
  return [times.map(t => t / 1000), ...columns]
}

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
export const seriesColour = (i: number) => `var(--series-${(i % 8) + 1})`

/** Times of an axis: the day below the first one and wherever it changes. */
function axisTimes(splits: readonly number[], zone: 'local' | 'utc'): string[] {
  const step = splits.length > 1 ? splits[1]! - splits[0]! : 60
  let day = ''
  return splits.map(s => {
    const [date = '', time = ''] = dateTime(s * 1000, zone).split(' ')
    const clock = step < 60 ? time.slice(0, 8) : time.slice(0, 5)
    const text = date === day ? clock : `${clock}\n${date}`
    day = date
    return text
  })
}

/** Without a pointer over the chart, the legend shows the newest values. */
function showLast(u: uPlot) {
  const last = (u.data[0]?.length ?? 0) - 1
  if ((u.cursor.left ?? -1) < 0 && last >= 0) u.setLegend({ idx: last }, false)
}

/** Lines over time on a canvas. A drag zooms, a double click goes back. */
export default function Chart({ lines, from, to, label, height = 220, sync, zoom, back, hidden, legend = false }: Props) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const act = useRef({ zoom, back })
  act.current = { zoom, back }
  const zone = useZone()
  const t = useStore(theme)
  const names = lines.map(l => l.name).join('\n')
  useEffect(() => {
    const axis = {
      stroke: colour('--text-2'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { stroke: colour('--line'), width: 1 },
      font: '11px system-ui',
    }
    const u = new uPlot(
      {
        width: host.current!.clientWidth || 600,
        height,
        tzDate: ts => (zone === 'utc' ? uPlot.tzDate(new Date(ts * 1000), 'Etc/UTC') : new Date(ts * 1000)),
        scales: { x: { time: true, range: () => [range.current.from / 1000, range.current.to / 1000] } },
        axes: [
          { ...axis, values: (_, splits) => axisTimes(splits, zone) },
          { ...axis, size: 56 },
        ],
        legend: { show: legend, live: true },
        cursor: {
          ...(sync ? { sync: { key: sync } } : {}),
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => (act.current.back?.(), null) },
        },
        series: [
          { value: (_, t) => (t ? dateTime(t * 1000, zone).replace(/\.\d+/, '') : '–') },
          ...lines.map((l, i) => ({
            label: l.name,
            stroke: colour(`--series-${(i % 8) + 1}`),
            width: 1.5,
            spanGaps: false,
            points: { show: l.points.length < 30, size: 4 },
            dash: i >= 8 ? [6, 3] : [],
          })),
        ],
        hooks: {
          setCursor: [showLast],
          setSelect: [
            p => {
              const { left, width } = p.select
              if (width > 4) act.current.zoom?.(Math.round(p.posToVal(left, 'x') * 1000), Math.round(p.posToVal(left + width, 'x') * 1000))
              p.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false)
            },
          ],
        },
      },
      aligned(lines) as uPlot.AlignedData,
      host.current!,
    )
    plot.current = u
    const watch = new ResizeObserver(() => u.setSize({ width: host.current?.clientWidth ?? 600, height }))
    watch.observe(host.current!)
    return () => {
      watch.disconnect()
      u.destroy()
    }
  }, [names, height, zone, t, sync, legend])
  const range = useRef({ from, to })
  range.current = { from, to }
  useEffect(() => {
    plot.current?.setData(aligned(lines) as uPlot.AlignedData)
    if (plot.current) showLast(plot.current)
  }, [lines, from, to])
  useEffect(() => {
    lines.forEach((l, i) => plot.current?.setSeries(i + 1, { show: !hidden?.has(l.name) }))
  }, [hidden, names])
  return <div ref={host} class="chart" role="img" aria-label={label} />
}
