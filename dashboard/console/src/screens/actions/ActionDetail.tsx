import { useEffect, useMemo, useState } from 'preact/hooks'
import { useRead, useWrite } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { count, duration } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { Confirm } from '../../ui/Dialog'
import { Tabs } from '../../ui/Field'
import { Inspector } from '../../ui/Inspector'
import { absent, Empty, NoMatch, Panel, Query } from '../../ui/Panel'
import { Payload } from '../../ui/Payload'
import { Sentence } from '../../ui/Sentence'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Ago, Moment } from '../../ui/Time'
import { toast } from '../../ui/toasts'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import { Stat } from '../overview/Overview'
import { Choice, workerColumns } from '../workers/Workers'
import { errorRate } from './Actions'
import { Invoke } from './Invoke'
import { strings } from '../../strings'
import { actions as say } from '../../strings/actions'

const words = strings.words

export type Run = Routes['GET /api/v1/actions/:name/runs'][number]

const states = ['pending', 'running', 'completed', 'failed', 'cancelled', 'timed_out']

/** What invoked a run; a workflow's is a link to its run. */
function Source({ source }: { source: string }) {
  const run = /^workflow[: ](?:run[: ])?([^\s/]+)/.exec(source)?.[1] ?? /(wfr-[\w-]+)/.exec(source)?.[1]
  // What all have in common would leave no room for what tells them apart.
  return run ? (
    <a href={link('runs', [run])} title={source}>
      {source.replace(/^workflow[: ](run[: ])?/, '')}
    </a>
  ) : (
    <>{source || '–'}</>
  )
}

export function ActionDetail({ name }: { name: string }) {
  const { ns, query } = useRoute()
  const tab = query['tab'] === 'workers' ? 'workers' : 'runs'
  const status = query['status'] ?? ''
  const open = query['run'] ?? ''
  const q = useRead('GET /api/v1/actions/:name', { name, namespace: ns }, 3000, { raw: ['recent_runs.*.input', 'recent_runs.*.output', 'workers.*.metadata'] })
  const [following, follow] = useState(false)
  const runs = useRead('GET /api/v1/actions/:name/runs', { name, namespace: ns, status, limit: 200 }, following ? 1000 : 3000, {
    keep: true,
    raw: ['*.input', '*.output'],
  })
  const readOnly = useReadOnly()
  const [invoking, setInvoking] = useState(false)
  useKeys(readOnly ? {} : { n: () => setInvoking(true) })
  const d = q.data?.data
  const rows = runs.data?.data ?? []
  const selected = useMemo(() => rows.find(r => r.run_id === open) ?? d?.recent_runs.find(r => r.run_id === open), [rows, d, open])
  // A run that is looked at is followed to its end.
  useEffect(() => follow(selected?.completed_at === null), [selected])
  const columns: Column<Run>[] = [
    { key: 'id', title: words.run, width: 'minmax(140px, 1fr)', cell: r => <span class="mono">{r.run_id}</span> },
    { key: 'status', title: words.status, width: '105px', cell: r => <State state={r.status} /> },
    {
      key: 'attempt',
      title: words.attempt,
      width: '60px',
      num: true,
      spare: 2,
      cell: r => <span class={r.attempt > 1 ? 'warn' : ''}>{count(r.attempt)}</span>,
    },
    { key: 'source', title: words.source, width: 'minmax(110px, 1fr)', spare: 4, cell: r => <Source source={r.source} /> },
    {
      key: 'worker',
      title: words.worker,
      width: 'minmax(70px, 1fr)',
      spare: 3,
      cell: r => (r.worker_id ? <a href={link('workers', [r.worker_id])}>{r.worker_id}</a> : <span class="dim">–</span>),
    },
    { key: 'created', title: words.invoked, width: '70px', num: true, spare: 5, cell: r => <Ago at={r.created_at} /> },
    { key: 'took', title: words.took, width: '64px', num: true, spare: 1, cell: r => (r.duration_ms === null ? '–' : duration(r.duration_ms)) },
    {
      key: 'error',
      title: words.error,
      width: 'minmax(120px, 3fr)',
      cell: r => (
        <span class="crit" title={r.error ?? ''}>
          {r.error?.split('\n')[0] ?? ''}
        </span>
      ),
    },
  ]
  return (
    <div class="page fixed">
      <div class="head">
        <a class="crumb" href={link('actions')}>
          {words.actions}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{name}</h1>
        {d && (
          <>
            <State state={d.enabled ? 'enabled' : 'disabled'} />
            <span class="dim">{say.facts(d.type, d.version, d.owner, d.timeout_ms > 0 ? duration(d.timeout_ms) : words.none, d.max_retries)}</span>
          </>
        )}
        <button class="btn primary push" disabled={readOnly !== '' || !d} title={readOnly || 'n'} onClick={() => setInvoking(true)}>
          {words.invoke}
        </button>
      </div>
      <Query
        q={q}
        missing={
          <Empty title={say.missing(name, ns)}>
            <Snippet command={floe(['action', 'register'], inNamespace(ns), [name])} />
          </Empty>
        }
      >
        {d => (
          <div class="stats" data-test="action">
            <Stat
              label={words.waiting}
              value={count(d.runs.pending)}
              tone={d.runs.pending > 0 && d.worker_count === 0 ? 'warn' : ''}
              more={d.worker_count === 0 ? say.noWorker : strings.many.workers(d.worker_count)}
            />
            <Stat label={words.running} value={count(d.runs.running)} />
            <Stat label={words.completed} value={count(d.runs.completed)} />
            <Stat label={words.failed} value={count(d.runs.failed)} tone={d.runs.failed > 0 ? 'crit' : ''} />
            <Stat label={words.timedOut} value={count(d.runs.timed_out)} tone={d.runs.timed_out > 0 ? 'warn' : ''} />
            <Stat label={words.cancelled} value={count(d.runs.cancelled)} />
            <Stat label={say.errorRate} value={errorRate(d.runs).text} tone={errorRate(d.runs).part > 0 ? 'crit' : ''} />
            <Stat
              label={words.average}
              value={d.latency.count > 0 ? duration(d.latency.avg_ms) : '–'}
              more={`p99 ${d.latency.count > 0 ? duration(d.latency.p99_ms) : '–'}`}
            />
          </div>
        )}
      </Query>
      {!absent(q) && (
        <>
          <div class="tools">
            <Tabs
              label={words.parts}
              value={tab}
              options={
                [
                  ['runs', words.runs],
                  ['workers', say.workersTab(count(d?.worker_count))],
                ] as const
              }
              change={t => view({ tab: t === 'runs' ? '' : t, run: '' })}
            />
            {tab === 'runs' && <Choice label={words.status} value={status} options={states} change={v => view({ status: v, run: '' })} />}
          </div>
          <div class="split">
            <Panel fill flush label={tab === 'runs' ? words.runs : words.workers}>
              {tab === 'runs' ? (
                <Query
                  q={runs}
                  empty={r => r.length === 0}
                  whenEmpty={
                    status ? (
                      <NoMatch filter={status} clear={() => view({ status: '' })} />
                    ) : (
                      <Empty title={say.noRuns}>
                        <Snippet command={floe(['action', 'invoke'], inNamespace(ns), [name, '{}'])} />
                      </Empty>
                    )
                  }
                >
                  {(r, answer) => (
                    <VirtualRows
                      label={words.runs}
                      rows={r}
                      columns={columns}
                      keyOf={x => x.run_id}
                      selected={open || undefined}
                      open={x => view({ run: x.run_id })}
                      total={answer.next && !status ? d?.runs.total : undefined}
                    />
                  )}
                </Query>
              ) : (
                <Query
                  q={q}
                  empty={x => x.workers.length === 0}
                  whenEmpty={
                    <Empty title={say.noWorkers}>
                      <Snippet command={floe(['worker', 'await'], { ...inNamespace(ns), 'worker-id': 'worker-1' }, [name])} />
                    </Empty>
                  }
                >
                  {x => (
                    <VirtualRows
                      label={words.workers}
                      rows={x.workers}
                      columns={workerColumns}
                      keyOf={w => w.worker_id}
                      href={w => link('workers', [w.worker_id])}
                    />
                  )}
                </Query>
              )}
            </Panel>
            {open && tab === 'runs' && (
              <Inspector title={open} close={() => view({ run: '' })} tools={selected && <RunTools run={selected} name={name} ns={ns} />}>
                {selected ? <RunFacts run={selected} ns={ns} /> : <Empty title={say.runNotListed} />}
              </Inspector>
            )}
          </div>
        </>
      )}
      {invoking && <Invoke ns={ns} name={name} close={() => setInvoking(false)} opened={run => go(link('actions', [name], { run }, ns))} />}
    </div>
  )
}

const retried = ['failed', 'timed_out', 'cancelled']

/** Carries out a run again that has ended without success, or begins one that waits. What was asked for stays, whatever becomes of the run meanwhile. */
function RunTools({ run: r, name, ns }: { run: Run; name: string; ns: string }) {
  const readOnly = useReadOnly()
  const [asking, ask] = useState<'' | 'retry' | 'run-now'>('')
  const done = (run: { run_id: string; status: string }) => {
    toast('ok', say.invoked(run.run_id, run.status))
    ask('')
  }
  const retry = useWrite('POST /api/v1/actions/:name/runs/:id/retry', ['/actions'], done)
  const now = useWrite('POST /api/v1/actions/:name/runs/:id/run-now', ['/actions'], done)
  // A step of a workflow is retried by its run.
  const can = r.status === 'pending' ? 'run-now' : retried.includes(r.status) && !r.source.startsWith('workflow:') ? 'retry' : ''
  const write = asking === 'retry' ? retry : now
  return (
    <>
      {can && (
        <button class="btn" disabled={readOnly !== ''} title={readOnly} onClick={() => ask(can)}>
          {say.doWith[can]}
        </button>
      )}
      {asking && (
        <Confirm
          title={say.askWith[asking](r.run_id)}
          action={say.doWith[asking]}
          danger={false}
          pending={write.isPending}
          error={write.error?.message}
          close={() => ask('')}
          act={() => write.mutate({ args: { name, id: r.run_id, namespace: ns } })}
        >
          <p>
            <Sentence of={say.willWith[asking]} put={{ run: <code>{r.run_id}</code>, name: <code>{name}</code> }} />
          </p>
          <Snippet
            command={floe(['action', asking], inNamespace(ns), [r.run_id])}
            call={curl('POST', `/actions/${encodeURIComponent(name)}/runs/${encodeURIComponent(r.run_id)}/${asking}`, { namespace: ns })}
          />
        </Confirm>
      )}
    </>
  )
}

function RunFacts({ run: r, ns }: { run: Run; ns: string }) {
  return (
    <>
      <dl class="facts">
        <dt>{words.status}</dt>
        <dd data-test="status">
          <State state={r.status} />
        </dd>
        <dt>{words.attempt}</dt>
        <dd>{count(r.attempt)}</dd>
        <dt>{words.source}</dt>
        <dd>
          <Source source={r.source} />
        </dd>
        <dt>{words.worker}</dt>
        <dd>{r.worker_id ? <a href={link('workers', [r.worker_id])}>{r.worker_id}</a> : '–'}</dd>
        <dt>{words.invoked}</dt>
        <dd>
          <Moment at={r.created_at} />
        </dd>
        <dt>{words.began}</dt>
        <dd>
          <Moment at={r.started_at} />
        </dd>
        <dt>{words.ended}</dt>
        <dd>
          <Moment at={r.completed_at} />
        </dd>
        <dt>{words.took}</dt>
        <dd>{r.duration_ms === null ? '–' : duration(r.duration_ms)}</dd>
      </dl>
      {r.error && (
        <>
          <h3>{words.error}</h3>
          <Payload text={r.error} label={say.theError} />
        </>
      )}
      <h3>{strings.input}</h3>
      {r.input ? <Payload text={r.input.text} label={words.theInput} file={`${r.run_id}-input.json`} /> : <p class="dim">{words.noneThere}</p>}
      <h3>{words.output}</h3>
      {r.output ? <Payload text={r.output.text} label={words.theOutput} file={`${r.run_id}-output.json`} /> : <p class="dim">{words.noneThere}</p>}
      <Snippet command={floe(['action', 'status'], inNamespace(ns), [r.run_id])} call={curl('GET', '/actions', { namespace: ns })} />
    </>
  )
}
