import { useMemo, useState } from 'preact/hooks'
import { serverNow } from '../../api/client'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count, dateTime } from '../../lib/format'
import { useZone } from '../../lib/prefs'
import { niceStep, parseRange, rangeCadence } from '../../lib/range'
import { link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { Segmented } from '../../ui/Field'
import { Chart } from '../../ui/Lazy'
import { Empty, Panel, Query, useNow } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Retention } from './Retention'
import { strings } from '../../strings'
import { ts as say } from '../../strings/ts'

const words = strings.words

type Field = Routes['GET /api/v1/timeseries/:measurement']['fields'][number]

export const ranges = [
  ['5m', '5m'],
  ['15m', '15m'],
  ['1h', '1h'],
  ['6h', '6h'],
  ['1d', '1d'],
  ['7d', '7d'],
] as const

const mostLines = 24
/** A name as FloQL takes it. */
const word = (s: string) => (/^[A-Za-z_][\w.]*$/.test(s) ? s : JSON.stringify(s))

/** tags=k=v,k=v with backslashes where a value holds what separates. */
const escape = (s: string) => s.replace(/[\\,=]/g, '\\$&')
function parseTags(text: string): Record<string, string> {
  const tags: Record<string, string> = {}
  for (const m of text.matchAll(/((?:\\.|[^\\,=])+)=((?:\\.|[^\\,=])+)/g)) tags[m[1]!.replace(/\\(.)/g, '$1')] = m[2]!.replace(/\\(.)/g, '$1')
  return tags
}
const formatTags = (tags: Record<string, string>) =>
  Object.entries(tags)
    .map(([k, v]) => `${escape(k)}=${escape(v)}`)
    .join(',')

/** The range that the view is of: a relative one moves on with each read. */
export function useRange(fallback: string) {
  const text = useRoute().query['range'] ?? ''
  const every = rangeCadence(parseRange(text, 0, fallback))
  // In steps of its cadence, so that charts beside each other show the same time.
  const now = Math.floor((serverNow() + 0 * useNow(Math.max(1000, every))) / Math.max(1000, every)) * Math.max(1000, every)
  const range = parseRange(text, now, fallback)
  return { ...range, every, text }
}

export function RangePicker({ text, fallback }: { text: string; fallback: string }) {
  const zone = useZone()
  const absolute = text.includes('..') ? parseRange(text, 0) : null
  return (
    <span class="row wrap">
      <Segmented
        label={words.range}
        value={absolute ? '' : text || fallback}
        options={ranges as unknown as readonly (readonly [string, string])[]}
        change={r => view({ range: r })}
      />
      {absolute && (
        <>
          <span class="dim nowrap">{say.fromTo(dateTime(absolute.from, zone).slice(0, 19), dateTime(absolute.to, zone).slice(0, 19))}</span>
          <button class="btn" onClick={() => view({ range: '' })}>
            {say.backToNow}
          </button>
        </>
      )}
    </span>
  )
}

/** The window of a chart: a point a pixel or so. */
const stepOf = (r: { from: number; to: number }) => niceStep((r.to - r.from) / 700)

/** A duration as FloQL takes it, in the largest unit that divides it. */
export function inWords(ms: number): string {
  const [unit, size] = (
    [
      ['d', 86_400_000],
      ['h', 3_600_000],
      ['m', 60_000],
      ['s', 1000],
    ] as const
  ).find(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** The window that a query was answered with: while the next answer is awaited the chart is still of the one before. */
export const windowOf = (query: string | undefined) => /window\((\w+)\)/.exec(query ?? '')?.[1] ?? ''

export function Measurement({ name }: { name: string }) {
  const { ns, query } = useRoute()
  const q = useRead('GET /api/v1/timeseries/:measurement', { measurement: name, namespace: ns }, 10_000)
  const tagsRead = useRead('GET /api/v1/console/timeseries/:measurement/tags', { measurement: name, namespace: ns }, 60_000)
  const range = useRange('1h')
  const tags = useMemo(() => parseTags(query['tags'] ?? ''), [query['tags']])
  const only = query['field'] ?? ''
  const table = query['view'] === 'table'
  const d = q.data?.data
  const readOnly = useReadOnly()
  const [retaining, setRetaining] = useState(false)
  const fields = (d?.fields ?? []).filter(f => !only || f.name === only)
  const setTag = (key: string, value: string) => {
    const next = { ...tags }
    if (value) next[key] = value
    else delete next[key]
    view({ tags: formatTags(next) })
  }
  const floql = `${/^[A-Za-z_][\w.:/-]*$/.test(name) ? name : JSON.stringify(name)}${
    Object.keys(tags).length > 0
      ? `{${Object.entries(tags)
          .map(([k, v]) => `${k}=${JSON.stringify(v)}`)
          .join(', ')}}`
      : ''
  }[${range.relative ? range.text || '1h' : `${range.from}..${range.to}`}]${only ? ` | field(${only})` : ''} | window(${inWords(stepOf(range))}) | group_by(*) | avg()`
  return (
    <div class="page">
      {retaining && <Retention ns={ns} measurement={name} close={() => setRetaining(false)} />}
      <div class="head">
        <a class="crumb" href={link('ts')}>
          {words.timeSeries}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{name}</h1>
        {d && <span class="dim">{say.facts(d.series_count, d.field_count, d.retention)}</span>}
        <span class="row wrap push">
          <button class="btn" disabled={readOnly !== '' || !d} title={readOnly} onClick={() => setRetaining(true)}>
            {words.retention}
          </button>
          <Segmented
            label={words.show}
            value={table ? 'table' : 'chart'}
            options={
              [
                ['chart', words.chart],
                ['table', words.table],
              ] as const
            }
            change={v => view({ view: v === 'table' ? 'table' : '' })}
          />
          <a class="btn" href={link('floql', [], { q: floql })}>
            {words.query}
          </a>
        </span>
      </div>
      <div class="tools">
        <RangePicker text={range.text} fallback="1h" />
        {(d?.fields.length ?? 0) > 1 && (
          <label class="row">
            <span class="dim">{words.field}</span>
            <select class="select" value={only} onChange={e => view({ field: e.currentTarget.value })}>
              <option value="">{words.any}</option>
              {d!.fields.map(f => (
                <option key={f.name}>{f.name}</option>
              ))}
            </select>
          </label>
        )}
        {(tagsRead.data?.data ?? []).map(t => (
          <label key={t.key} class="row">
            <span class="dim">{t.key}</span>
            <select class="select" value={tags[t.key] ?? ''} onChange={e => setTag(t.key, e.currentTarget.value)}>
              <option value="">{words.any}</option>
              {t.values.map(v => (
                <option key={v}>{v}</option>
              ))}
              {t.truncated && <option disabled>{say.andMore}</option>}
            </select>
          </label>
        ))}
      </div>
      <Query
        q={q}
        missing={
          <Empty title={say.missing(name, ns)}>
            <Snippet command={floe(['ts', 'write'], { ...inNamespace(ns), value: '1' }, [name])} />
          </Empty>
        }
      >
        {() => (
          <>
            {fields.map(f => (
              <FieldChart key={f.name} ns={ns} measurement={name} field={f} range={range} tags={tags} table={table} />
            ))}
            <Snippet command={floe(['ts', 'query'], inNamespace(ns), [floql])} call={curl('POST', '/timeseries/floql', { namespace: ns }, floql)} />
          </>
        )}
      </Query>
    </div>
  )
}

function FieldChart({
  ns,
  measurement,
  field,
  range,
  tags,
  table,
}: {
  ns: string
  measurement: string
  field: Field
  range: ReturnType<typeof useRange>
  tags: Record<string, string>
  table: boolean
}) {
  const zone = useZone()
  const names = Object.keys(tags)
  const { from, to } = range
  // One line for each series. Where there are more points than can be seen, a line shows their mean.
  const step = stepOf(range)
  const query = `${word(measurement)}${names.length > 0 ? `{${names.map(k => `${word(k)}=${JSON.stringify(tags[k])}`).join(', ')}}` : ''}[${from}..${to}] | field(${word(field.name)}) | window(${inWords(step)}) | group_by(*) | avg()`
  const q = useRead('POST /api/v1/timeseries/floql', { namespace: ns }, 0, {
    body: query,
    moving: range.relative ? `${query.replace(/\[\d+\.\.\d+\]/, '')} ${to - from}` : query,
  })
  const series = (q.data?.data.series ?? []).slice(0, mostLines)
  const more = (q.data?.data.series.length ?? 0) - series.length
  const lines = useMemo(() => series.map(x => ({ name: x.tags.map(t => `${t.key}=${t.value}`).join(', ') || field.name, points: x.points })), [q.data])
  const points = series.flatMap(x => x.points).sort((a, b) => a.timestamp - b.timestamp)
  return (
    <Panel
      title={field.name}
      tools={
        <span class="dim">
          {say.meanPer(field.type, windowOf(q.data?.data.query) || inWords(step))}
          {more > 0 && say.firstSeries(mostLines, count(mostLines + more))}
        </span>
      }
    >
      <Query q={q} empty={x => x.series.length === 0} whenEmpty={<p class="dim">{say.noPoints}</p>}>
        {() =>
          table ? (
            <PointTable points={points} zone={zone} label={field.name} />
          ) : (
            <Chart
              legend
              lines={lines}
              from={from}
              to={to}
              sync={measurement}
              label={say.chartLabel(field.name, measurement, count(points.length))}
              zoom={(a, b) => view({ range: `${a}..${b}` })}
              back={() => view({ range: '' })}
            />
          )
        }
      </Query>
    </Panel>
  )
}

export function PointTable({ points, zone, label }: { points: readonly { timestamp: number; value: number }[]; zone: 'local' | 'utc'; label: string }) {
  const shown = points.slice(-500).reverse()
  return (
    <div class="scroll-x" style={{ maxHeight: '320px', overflow: 'auto' }} tabIndex={0} role="region" aria-label={say.pointsOf(label)}>
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">{words.time}</th>
            <th scope="col" class="num">
              {words.value}
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map(p => (
            <tr key={p.timestamp}>
              <td>{dateTime(p.timestamp, zone)}</td>
              <td class="num mono">{String(p.value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {points.length > shown.length && <p class="dim">{strings.theLastOf(shown.length, points.length)}</p>}
    </div>
  )
}
