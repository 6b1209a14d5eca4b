import { useMemo, useState } from 'preact/hooks'
import { nextParam, call, serverNow } from '../../api/client'
import { useQuery } from '@tanstack/preact-query'
import { useCadence, useRead, useWrite, type Read } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count, duration, timeOfDay } from '../../lib/format'
import { useZone } from '../../lib/prefs'
import { link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { ByCommand } from '../../ui/ByCommand'
import { Confirm } from '../../ui/Dialog'
import { Graph } from '../../ui/Lazy'
import { Inspector } from '../../ui/Inspector'
import { Empty, Panel, Query } from '../../ui/Panel'
import { Payload } from '../../ui/Payload'
import { Snippet } from '../../ui/Snippet'
import { State, toneOf } from '../../ui/State'
import { Table } from '../../ui/Table'
import { Moment } from '../../ui/Time'
import { Timeline } from '../../ui/Timeline'
import { toast } from '../../ui/toasts'
import { edgeKey } from '../../lib/graph'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import type { Answer, ApiError } from '../../api/client'
import { useGraph } from './Definition'
import { Retry } from './Retry'
import { isOver, Took } from './Runs'
import { strings } from '../../strings'
import { workflows as say } from '../../strings/workflows'
import { Sentence } from '../../ui/Sentence'

const words = strings.words

type Detail = Routes['GET /api/v1/workflow/runs/:id']
type Event = Routes['GET /api/v1/workflow/runs/:id/history'][number]

const raw = ['input', 'output', 'step_results.*.output', 'pending_signals.*.payload']
const mostEvents = 20_000

/** The whole history: what was read before is not read again. */
function useHistory(id: string, ns: string, over: boolean): Read<Event[]> {
  const gap = useCadence(over ? 0 : 1000)
  const queryKey = ['GET /api/v1/workflow/runs/:id/history', id, ns]
  const q = useQuery<Answer<Event[]>, ApiError>({
    queryKey,
    queryFn: async ({ signal }) => {
      let answer = await call('GET /api/v1/workflow/runs/:id/history', { id, namespace: ns }, { signal })
      const all = [...answer.data]
      while (answer.next && all.length < mostEvents) {
        answer = await call('GET /api/v1/workflow/runs/:id/history', { id, namespace: ns, after: nextParam(answer.next, 'after') }, { signal })
        all.push(...answer.data)
      }
      return { ...answer, data: all }
    },
    refetchInterval: gap,
  })
  return Object.assign({ every: 1000 }, q) as Read<Event[]>
}

/** The steps that a run took, and what led from one to the next. */
export function walked(
  events: readonly Event[],
  edges: readonly { from: string; to: string }[],
  status: string,
  ends: readonly { id: string; kind: string }[],
) {
  const order: string[] = []
  for (const e of events)
    if (
      (e.event_type === 'step_started' || e.event_type === 'step_skipped' || e.event_type === 'waiting_for_signal') &&
      e.step_name !== order[order.length - 1]
    )
      order.push(e.step_name)
  const nodes = new Set(order)
  const taken = new Set<string>()
  for (let i = 1; i < order.length; i++) taken.add(edgeKey(order[i - 1]!, order[i]!))
  const last = order[order.length - 1]
  if (isOver(status) && last) {
    const candidates = edges.filter(e => e.from === last && ends.some(n => n.id === e.to && n.kind === 'end-' + status))
    if (candidates.length === 1) {
      nodes.add(candidates[0]!.to)
      taken.add(edgeKey(last, candidates[0]!.to))
    }
  }
  return { nodes, edges: taken, ...(isOver(status) || !last ? {} : { at: last }) }
}

export default function Run() {
  const { id, ns, query } = useRoute()
  const run = id[0] ?? ''
  const q = useRead('GET /api/v1/workflow/runs/:id', { id: run, namespace: ns, fields: 'all' }, 1000, { raw })
  const d = q.data?.data
  const over = d ? isOver(d.status) : false
  const history = useHistory(run, ns, over)
  const definition = useRead('GET /api/v1/workflow/definitions/:name', { name: d?.workflow ?? '', namespace: ns }, 0, { enabled: !!d })
  const graph = useGraph('workflow', definition.data?.data.definition_yaml)
  const readOnly = useReadOnly()
  const [asking, setAsking] = useState(false)
  const [retrying, setRetrying] = useState(false)
  const cancel = useWrite('DELETE /api/v1/workflow/runs/:id', ['/workflow'], () => {
    toast('ok', say.isCancelled(run))
    setAsking(false)
  })
  const events = history.data?.data ?? []
  const step = query['step'] ?? ''
  const select = (s: string) => view({ step: s })
  const g = graph.data?.data.graph
  // The definition knows which signal a step waits for.
  const waits = events[events.length - 1]?.event_type === 'waiting_for_signal' ? g?.nodes.find(n => n.id === d?.current_step) : undefined
  const signal = /^signal (\S+)$/.exec(waits?.label ?? '')?.[1] ?? ''
  const path = useMemo(() => (g ? walked(events, g.edges, d?.status ?? '', g.nodes) : undefined), [events, g, d?.status])
  return (
    <div class="page">
      <div class="head">
        <a class="crumb" href={link('workflows')}>
          {words.workflows}
        </a>
        <span class="dim">/</span>
        {d && (
          <>
            <a class="crumb" href={link('workflows', [d.workflow])}>
              {d.workflow}
            </a>
            <span class="dim">/</span>
          </>
        )}
        <h1 tabIndex={-1} class="mono">
          {run}
        </h1>
        {d && <State state={d.status} />}
        <span class="row wrap push">
          {(d?.status === 'failed' || d?.status === 'timed_out') && (
            <button class="btn" disabled={readOnly !== ''} title={readOnly} onClick={() => setRetrying(true)}>
              {say.retryRun}
            </button>
          )}
          <button class="btn danger" disabled={readOnly !== '' || !d || over} title={readOnly || (over ? words.hasEnded : '')} onClick={() => setAsking(true)}>
            {say.cancelRun}
          </button>
        </span>
      </div>
      <Query q={q} missing={<Empty title={say.noRun(run)} />}>
        {d => (
          <>
            <Panel label={words.run}>
              <dl class="facts wide" data-test="run">
                <dt>{over ? words.ended : words.atPresent}</dt>
                <dd class="whole">{why(d, events, signal)}</dd>
                {d.error && (
                  <>
                    <dt>{words.error}</dt>
                    <dd class="whole crit">{d.error}</dd>
                  </>
                )}
                {!!d.compensations_failed && (
                  <>
                    <dt>{say.notCompensated}</dt>
                    <dd class="whole crit">{say.uncompensated(d.compensations_failed)}</dd>
                  </>
                )}
                <dt>{words.version}</dt>
                <dd>
                  {d.version}
                  {definition.data && definition.data.data.version !== d.version && <span class="warn"> {say.otherVersion(definition.data.data.version)}</span>}
                </dd>
                <dt>{words.started}</dt>
                <dd>
                  <Sentence of={say.startedBy} put={{ when: <Moment at={d.started_at} />, by: d.triggered_by }} />
                </dd>
                <dt>{over ? words.took : say.soFar}</dt>
                <dd>
                  <Took run={d} />
                </dd>
              </dl>
            </Panel>
            {!over && (
              <ByCommand
                key={signal}
                open={signal !== ''}
                what={say.signalByCommand}
                commands={[floe(['workflow', 'signal'], inNamespace(ns), [run, signal || 'TYPE', '{}'])]}
              />
            )}
            <Panel title={words.timeline}>
              <Query q={history}>
                {all => <Timeline events={all} from={d.started_at} to={d.completed_at} failed={failedSteps(d)} selected={step} select={select} />}
              </Query>
            </Panel>
            <div class="grid-2">
              <Panel title={words.path}>
                <Query q={graph}>
                  {v =>
                    v.graph.nodes.length === 0 ? (
                      <p class="dim">{say.undrawable}</p>
                    ) : (
                      <Graph
                        label={say.pathLabel}
                        nodes={v.graph.nodes}
                        edges={v.graph.edges}
                        {...(path ? { walked: path } : {})}
                        down
                        selected={step}
                        select={s => s in d.step_results && select(step === s ? '' : s)}
                        note={n => note(d, n.id)}
                      />
                    )
                  }
                </Query>
              </Panel>
              <Panel title={words.steps} flush>
                <Steps detail={d} selected={step} select={select} />
              </Panel>
            </div>
            {d.pending_signals.length > 0 && (
              <Panel title={say.signalsTitle}>
                {d.pending_signals.map(s => (
                  <div key={s.type + s.received_at} class="col">
                    <span>
                      <b>{s.type}</b> <Moment at={s.received_at} />
                    </span>
                    {s.payload && <Payload text={s.payload.text} label={say.signal(s.type)} />}
                  </div>
                ))}
              </Panel>
            )}
            <div class="grid-2">
              <Panel title={strings.input}>
                {d.input ? <Payload text={d.input.text} label={words.theInput} file={`${run}-input.json`} /> : <p class="dim">{words.noneThere}</p>}
              </Panel>
              <Panel title={words.output}>
                {d.output ? (
                  <Payload text={d.output.text} label={words.theOutput} file={`${run}-output.json`} />
                ) : (
                  <p class="dim">{over ? words.noneThere : say.notYet}</p>
                )}
              </Panel>
            </div>
            <section class="panel" aria-label={words.events} style={{ height: '320px', flex: 'none' }}>
              <header>
                <h2>{words.events}</h2>
                <span class="dim">{count(events.length)}</span>
              </header>
              <div class="body flush">
                <Query q={history}>{all => <Events events={step ? all.filter(e => e.step_name === step) : all} start={d.started_at} follow={!over} />}</Query>
              </div>
            </section>
            <Snippet
              command={floe(['workflow', 'status'], inNamespace(ns), [run])}
              call={curl('GET', `/workflow/runs/${encodeURIComponent(run)}`, { namespace: ns })}
            />
            {step && d.step_results[step] && (
              <div class="sheet">
                <Inspector title={step === '_start' ? words.startStep : step} close={() => select('')}>
                  <StepResult detail={d} step={step} />
                </Inspector>
              </div>
            )}
          </>
        )}
      </Query>
      {retrying && d && <Retry ns={ns} run={run} workflow={d.workflow} steps={Object.keys(d.step_results)} close={() => setRetrying(false)} />}
      {asking && d && (
        <Confirm
          title={say.askCancel(run)}
          action={say.cancelRun}
          pending={cancel.isPending}
          error={cancel.error?.message}
          close={() => setAsking(false)}
          act={() => cancel.mutate({ args: { id: run, namespace: ns } })}
        >
          <p>
            <Sentence
              of={say.willCancel}
              put={{
                run: <code>{run}</code>,
                workflow: <code>{d.workflow}</code>,
                ns: <code>{ns}</code>,
                where: d.current_step ? say.atStep(d.current_step) : '',
              }}
            />
          </p>
          <Snippet
            command={floe(['workflow', 'cancel'], inNamespace(ns), [run])}
            call={curl('DELETE', `/workflow/runs/${encodeURIComponent(run)}`, { namespace: ns })}
          />
        </Confirm>
      )}
    </div>
  )
}

/** What a run waits for, or how it has ended, in a sentence. */
function why(d: Detail, events: readonly Event[], signal: string): string {
  if (isOver(d.status)) return d.status.replace('_', ' ')
  const last = events[events.length - 1]
  const step = d.current_step === '_start' ? words.startStep : (d.current_step ?? say.nextStep)
  if (!last) return say.notBegun(step)
  const what = signal ? say.waitsFor(signal) : ((say.doing as Record<string, string | undefined>)[last.event_type] ?? last.event_type.replaceAll('_', ' '))
  return say.stands(step, what, duration(Math.max(0, serverNow() - last.timestamp)))
}

/** The steps that have ended in no success. */
const failedSteps = (d: Detail) =>
  new Set(
    Object.entries(d.step_results)
      .filter(([, s]) => ['crit', 'warn'].includes(toneOf(s.outcome)))
      .map(([step]) => step),
  )

function note(d: Detail, id: string): string {
  const s = d.step_results[id]
  return s ? say.note(s.outcome, s.attempts, duration(Math.max(0, s.completed_at - s.started_at))) : ''
}

function Steps({ detail: d, selected, select }: { detail: Detail; selected: string; select: (s: string) => void }) {
  const rows = Object.entries(d.step_results).sort(([, a], [, b]) => a.started_at - b.started_at)
  if (rows.length === 0) return <p class="blank">{say.noSteps}</p>
  return (
    <Table label={words.steps} heads={[words.step, words.outcome, `#${words.attempts}`, `#${words.took}`]} test="steps">
      {rows.map(([name, s]) => (
        <tr key={name}>
          <td>
            <button class="btn quiet" aria-pressed={selected === name} onClick={() => select(selected === name ? '' : name)}>
              {name === '_start' ? words.startStep : name}
            </button>
          </td>
          <td>
            <span class={toneOf(s.outcome)}>{s.outcome}</span>
          </td>
          <td class={s.attempts > 1 ? 'num warn' : 'num'}>{s.attempts > 0 ? count(s.attempts) : '–'}</td>
          <td class="num">{duration(Math.max(0, s.completed_at - s.started_at))}</td>
        </tr>
      ))}
    </Table>
  )
}

function StepResult({ detail, step }: { detail: Detail; step: string }) {
  const s = detail.step_results[step]!
  return (
    <>
      <dl class="facts">
        <dt>{words.outcome}</dt>
        <dd class={toneOf(s.outcome)}>{s.outcome}</dd>
        <dt>{words.attempts}</dt>
        <dd>{count(s.attempts)}</dd>
        <dt>{words.began}</dt>
        <dd>
          <Moment at={s.started_at} />
        </dd>
        <dt>{words.ended}</dt>
        <dd>
          <Moment at={s.completed_at} />
        </dd>
        <dt>{words.took}</dt>
        <dd>{duration(Math.max(0, s.completed_at - s.started_at))}</dd>
      </dl>
      {s.output ? <Payload text={s.output.text} label={words.theOutput} /> : <p class="dim">{say.noOutput}</p>}
    </>
  )
}

function Events({ events, start, follow }: { events: readonly Event[]; start: number; follow: boolean }) {
  const zone = useZone()
  const rows = useMemo(() => events.map((e, i) => ({ ...e, i })), [events])
  const columns: Column<Event & { i: number }>[] = [
    { key: 'n', title: '#', width: '40px', num: true, cell: e => count(e.i + 1) },
    { key: 'time', title: words.time, width: '110px', cell: e => timeOfDay(e.timestamp, zone, true) },
    { key: 'after', title: words.after, width: '80px', num: true, cell: e => duration(e.timestamp - start) },
    {
      key: 'event',
      title: words.event,
      width: 'minmax(140px, 1fr)',
      cell: e => (
        <span class={/fail|exhaust|not_found|timeout|timed_out/.test(e.event_type) ? 'crit' : /retry/.test(e.event_type) ? 'warn' : ''}>
          {e.event_type.replaceAll('_', ' ')}
        </span>
      ),
    },
    { key: 'step', title: words.step, width: 'minmax(100px, 1fr)', cell: e => (e.step_name === '_start' ? words.startStep : e.step_name) },
  ]
  return <VirtualRows label={words.events} rows={rows} columns={columns} keyOf={e => String(e.i)} follow={follow} />
}
