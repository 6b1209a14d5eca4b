import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, call, type Answer } from '../../api/client'
import { refreshes, useCadence, useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { count, dateTime, duration } from '../../lib/format'
import { completing, errorPlace, stages } from '../../lib/floql'
import { useDraft } from '../../lib/draft'
import { keep, recall } from '../../lib/mount'
import { useZone } from '../../lib/prefs'
import { useRoute, view } from '../../lib/router'
import { useStore } from '../../lib/store'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { Segmented } from '../../ui/Field'
import { Chart, Editor } from '../../ui/Lazy'
import { Empty, Panel, Stale } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { TSTabs } from '../ts/Tabs'
import { strings } from '../../strings'
import { floql as say } from '../../strings/floql'

const words = strings.words

type Result = Routes['POST /api/v1/timeseries/floql']
type Series = Result['series'][number]
const route = 'POST /api/v1/timeseries/floql'
const kept = 50
const manySeries = 50

const nameOf = (s: Series) =>
  `${s.key}${s.field && s.field !== 'value' ? '.' + s.field : ''}${s.tags.length > 0 ? `{${s.tags.map(t => `${t.key}=${t.value}`).join(', ')}}` : ''}`

export default function Floql() {
  const { ns, query } = useRoute()
  const zone = useZone()
  const asked = query['q'] ?? ''
  const [text, setText, sent] = useDraft(asked)
  const [answer, setAnswer] = useState<{ answer: Answer<Result>; took: number; of: string } | null>(null)
  const [error, setError] = useState<{ error: ApiError; of: string } | null>(null)
  const [running, setRunning] = useState(false)
  const [live, setLive] = useState(false)
  const [past, setPast] = useState<string[]>(recall('floql', []))
  const [all, setAll] = useState(false)
  const [alone, setAlone] = useState('')
  const abort = useRef<AbortController | null>(null)
  const table = query['view'] === 'table'
  const measurements = useRead('GET /api/v1/timeseries', { namespace: ns }, 60_000)

  const run = useCallback(
    async (q: string) => {
      if (q.trim() === '') return
      abort.current?.abort() // a newer run makes an older one pointless
      const mine = (abort.current = new AbortController())
      setRunning(true)
      const started = performance.now()
      try {
        const got = await call(route, { namespace: ns }, { body: q, signal: mine.signal })
        setAnswer({ answer: got, took: performance.now() - started, of: q })
        setError(null)
      } catch (e) {
        if ((e as Error).name !== 'AbortError') setError({ error: e as ApiError, of: q })
      }
      if (abort.current === mine) setRunning(false)
    },
    [ns],
  )
  useEffect(() => {
    if (asked) void run(asked)
    return () => abort.current?.abort()
  }, [asked, run])
  const asks = useStore(refreshes)
  const answered = useRef(asks)
  useEffect(() => {
    if (asks === answered.current) return
    answered.current = asks
    void run(asked)
  }, [asks, asked, run])
  const gap = useCadence(live ? 5000 : 0)
  useEffect(() => {
    if (gap === false || !asked) return
    const timer = setInterval(() => {
      if (!document.hidden) void run(asked)
    }, gap)
    return () => clearInterval(timer)
  }, [gap, asked, run])
  const submit = () => {
    const q = text.trim()
    if (q === '') return
    const next = [q, ...past.filter(p => p !== q)].slice(0, kept)
    setPast(next)
    keep('floql', next)
    setAll(false)
    setAlone('')
    if (q === asked) return void run(q)
    sent(q)
    view({ q })
  }
  // A node that does not answer says nothing about the query: what it has answered before stays, with its age.
  const stale = answer && error && error.of === answer.of && (error.error.status === 0 || error.error.status >= 500)
  const complete = useCompletion(ns)
  const marks = useMemo(() => {
    if (!error || error.of !== text.trim()) return []
    const at = errorPlace(error.error.message, error.of)
    return at === null
      ? []
      : [{ from: at, to: at + (/^[\w.]+/.exec(error.of.slice(at))?.[0].length ?? 1), severity: 'error' as const, message: error.error.message }]
  }, [error, text])
  const series = answer?.answer.data.series ?? []
  const points = series.reduce((n, s) => n + s.points.length, 0)
  const shown = all ? series : series.slice(0, manySeries)
  const lines = useMemo(() => shown.map(s => ({ name: nameOf(s), points: s.points })), [answer, all])
  const hidden = useMemo(() => new Set(alone ? lines.filter(l => l.name !== alone).map(l => l.name) : []), [alone, lines])
  const times = series.flatMap(s => (s.points.length > 0 ? [s.points[0]!.timestamp, s.points[s.points.length - 1]!.timestamp] : []))
  const first = measurements.data?.data[0]?.name ?? 'cpu'
  const examples = [
    `${first}[1h] | window(1m) | avg()`,
    `${first}[6h] | window(5m) | group_by(*) | max()`,
    `${first}[1d] | window(15m) | percentile(99)`,
    `${first}[1h] | window(1m) | avg() | moving_avg(5)`,
  ]
  return (
    <div class="page">
      <div class="head">
        <h1 tabIndex={-1}>{words.timeSeries}</h1>
        <TSTabs value="floql" />
      </div>
      <div class="col">
        <Editor
          value={text}
          change={setText}
          language="floql"
          label={say.editor}
          submit={submit}
          complete={complete}
          marks={marks}
          lines={false}
          hint={say.editorHint(examples[0]!)}
        />
        <div class="tools">
          <button class="btn primary" disabled={text.trim() === ''} onClick={submit} title="Ctrl Enter">
            {words.run}
          </button>
          <label class="check">
            <input type="checkbox" checked={live} onChange={e => setLive(e.currentTarget.checked)} /> {words.live}
          </label>
          <label class="row">
            <span class="dim">{words.examples}</span>
            <select class="select history" value="" onChange={e => setText(e.currentTarget.value)}>
              <option value="">{say.examplesOf(first)}</option>
              {examples.map(x => (
                <option key={x}>{x}</option>
              ))}
            </select>
          </label>
          {past.length > 0 && (
            <label class="row">
              <span class="dim">{words.history}</span>
              <select class="select history" value="" onChange={e => setText(e.currentTarget.value)}>
                <option value="">{strings.many.queries(past.length)}</option>
                {past.map(x => (
                  <option key={x}>{x}</option>
                ))}
              </select>
            </label>
          )}
          <span class="dim push" role="status" data-test="result">
            {running ? say.running : answer && (!error || stale) ? say.found(series.length, points, duration(answer.took)) : ''}
          </span>
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
        </div>
        {stale && <Stale at={answer.answer.at} error={error.error} retry={() => void run(asked)} />}
        {error && !stale && (
          <div class="panel">
            <pre class="lines wrap crit" role="alert">
              {error.error.message}
            </pre>
          </div>
        )}
      </div>
      {answer ? (
        <Panel label={words.result}>
          {answer.answer.data.hints?.map(h => (
            <p key={h} class="warn">
              {h}
            </p>
          ))}
          {series.length === 0 ? (
            <Empty title={say.noPoints} />
          ) : table ? (
            <Rows series={series} zone={zone} />
          ) : (
            <>
              <Chart
                lines={lines}
                from={Math.min(...times)}
                to={Math.max(...times, Math.min(...times) + 1000)}
                label={say.resultLabel(series.length)}
                height={280}
                hidden={hidden}
              />
              {series.length > manySeries && !all && (
                <button class="btn" onClick={() => setAll(true)}>
                  {say.drawAll(series.length, manySeries)}
                </button>
              )}
              <Legend series={shown} alone={alone} toggle={n => setAlone(alone === n ? '' : n)} />
            </>
          )}
        </Panel>
      ) : (
        !error && !running && <Empty title={say.intro} />
      )}
      <Snippet
        command={floe(['ts', 'query'], inNamespace(ns), [text.trim() || examples[0]!])}
        call={curl('POST', '/timeseries/floql', { namespace: ns }, text.trim() || examples[0]!)}
      />
    </div>
  )
}

/** What the editor offers: measurements, stages, tags and their values, fields. */
function useCompletion(ns: string) {
  const known = useRef(new Map<string, Promise<unknown>>())
  return useCallback(
    async (c: CompletionContext): Promise<CompletionResult | null> => {
      const text = c.state.doc.toString()
      const place = completing(text, c.pos)
      if (place.what === '' || (!c.explicit && place.from === c.pos && place.what !== 'stage')) return null
      const once = <T,>(key: string, read: () => Promise<T>): Promise<T> => {
        const name = `${ns} ${key}`
        if (!known.current.has(name))
          known.current.set(
            name,
            read().catch(() => []),
          )
        return known.current.get(name) as Promise<T>
      }
      if (place.what === 'stage') {
        return { from: place.from, options: stages.map(s => ({ label: s.name, detail: s.doc, apply: `${s.name}(${s.args})`, type: 'function' })) }
      }
      if (place.what === 'measurement') {
        const all = await once('measurements', async () => (await call('GET /api/v1/timeseries', { namespace: ns })).data)
        return { from: place.from, options: all.map(m => ({ label: m.name, detail: `${m.points} points` })) }
      }
      if (place.what === 'field') {
        const all = await once(
          'fields ' + place.measurement,
          async () => (await call('GET /api/v1/timeseries/:measurement', { measurement: place.measurement, namespace: ns })).data.fields,
        )
        return { from: place.from, options: all.map(f => ({ label: f.name, detail: f.type })) }
      }
      const tags = await once(
        'tags ' + place.measurement,
        async () => (await call('GET /api/v1/console/timeseries/:measurement/tags', { measurement: place.measurement, namespace: ns })).data,
      )
      if (place.what === 'value')
        return {
          from: place.from,
          options: (tags.find(t => t.key === place.tag)?.values ?? []).map(v => ({ label: v, apply: /^[\w.:/-]+$/.test(v) ? v : JSON.stringify(v) })),
        }
      return { from: place.from, options: tags.map(t => ({ label: t.key, ...(place.what === 'tag' ? { apply: t.key + '=' } : {}) })) }
    },
    [ns],
  )
}

function Legend({ series, alone, toggle }: { series: readonly Series[]; alone: string; toggle: (name: string) => void }) {
  const shown = (v: number) => Number(v.toPrecision(6)).toString()
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={words.series} style={{ maxHeight: '260px', overflow: 'auto' }}>
      <table class="plain legend">
        <thead>
          <tr>
            <th scope="col">{words.series}</th>
            {['Last', 'Min', 'Max', 'Average', 'Points'].map(t => (
              <th key={t} scope="col" class="num">
                {t}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {series.map((s, i) => {
            const values = s.points.map(p => p.value)
            const name = nameOf(s)
            return (
              <tr key={name}>
                <td>
                  <button class="btn quiet" aria-pressed={alone === name} title={say.alone} onClick={() => toggle(name)}>
                    <i class="swatch" style={{ background: `var(--series-${(i % 8) + 1})` }} /> {name}
                  </button>
                </td>
                <td class="num mono">{shown(values[values.length - 1] ?? NaN)}</td>
                <td class="num mono">{shown(values.reduce((a, b) => Math.min(a, b), Infinity))}</td>
                <td class="num mono">{shown(values.reduce((a, b) => Math.max(a, b), -Infinity))}</td>
                <td class="num mono">{shown(values.reduce((a, b) => a + b, 0) / values.length)}</td>
                <td class="num">{count(s.point_count)}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

const mostRows = 1000

function Rows({ series, zone }: { series: readonly Series[]; zone: 'local' | 'utc' }) {
  const rows = series.flatMap(s => s.points.map(p => ({ name: nameOf(s), ...p })))
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={words.points} style={{ maxHeight: '480px', overflow: 'auto' }}>
      <table class="plain" data-test="points">
        <thead>
          <tr>
            <th scope="col">{words.series}</th>
            <th scope="col">{words.time}</th>
            <th scope="col" class="num">
              {words.value}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, mostRows).map((r, i) => (
            <tr key={i}>
              <td>{r.name}</td>
              <td class="nowrap">{dateTime(r.timestamp, zone)}</td>
              <td class="num mono">{String(r.value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > mostRows && <p class="dim">{strings.theFirst(mostRows, rows.length)}</p>}
    </div>
  )
}
