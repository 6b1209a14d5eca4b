import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, nextParam, serverNow, type ApiError } from '../../api/client'
import { useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { duration } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { workflows as say } from '../../strings/workflows'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query, useNow } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Ago } from '../../ui/Time'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import { Choice } from '../workers/Workers'

const words = strings.words

type Run = Routes['GET /api/v1/workflow/runs'][number]

export const runStates = ['pending', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'timed_out']
export const isOver = (status: string) => !['pending', 'running', 'waiting'].includes(status)

const failedStep = /^step "([^"]*)": outcome "[^"]*" at attempt \d+: /

/** Where a run is, or what it failed at. */
function stepOf(r: Run): string {
  const step = r.current_step ?? failedStep.exec(r.error ?? '')?.[1] ?? ''
  return step === '_start' ? strings.words.startStep : step
}

/** What went wrong, without where: a list has a column for that. What a failed compensation has left comes first. */
export function whatFailed(r: Pick<Run, 'error' | 'compensations_failed'>): string {
  const error = (r.error ?? '').replace(failedStep, '')
  return [r.compensations_failed ? say.uncompensated(r.compensations_failed) : '', error].filter(Boolean).join(': ')
}

/** How long a run took, or has taken so far. */
export function Took({ run }: { run: { status: string; started_at: number; duration_ms: number } }) {
  useNow(isOver(run.status) ? 60_000 : 1000)
  return <>{duration(isOver(run.status) ? run.duration_ms : Math.max(0, serverNow() - run.started_at))}</>
}

/** The runs of a workflow, or of all: the newest first, more on scrolling. */
export function Runs({ ns, workflow }: { ns: string; workflow: string }) {
  const { query } = useRoute()
  const status = query['status'] ?? ''
  const args = { namespace: ns, workflow, status, limit: 100, fields: 'all' }
  const q = useRead('GET /api/v1/workflow/runs', args, 3000, { keep: true })
  const [more, setMore] = useState<Run[]>([])
  const [next, setNext] = useState<string | null>(null)
  const [problem, setProblem] = useState<ApiError | null>(null)
  const busy = useRef(false)
  useEffect(() => {
    setMore([])
    setNext(null)
  }, [ns, workflow, status])
  const rows = useMemo(() => {
    const seen = new Map<string, Run>()
    for (const r of [...(q.data?.data ?? []), ...more]) if (!seen.has(r.run_id)) seen.set(r.run_id, r)
    return [...seen.values()]
  }, [q.data, more])
  const after = next ?? nextParam(q.data?.next ?? '', 'after')
  const load = async () => {
    if (busy.current || after === '' || q.isPlaceholderData) return
    busy.current = true
    try {
      const answer = await call('GET /api/v1/workflow/runs', { ...args, after })
      setMore(now => [...now, ...answer.data])
      setNext(nextParam(answer.next, 'after'))
      setProblem(null)
    } catch (e) {
      setProblem(e as ApiError)
    }
    busy.current = false
  }
  const columns: Column<Run>[] = [
    { key: 'id', title: words.run, width: 'minmax(130px, 2fr)', cell: r => <span class="mono">{r.run_id}</span> },
    ...(workflow ? [] : [{ key: 'workflow', title: words.workflow, width: 'minmax(100px, 1fr)', cell: (r: Run) => r.workflow }]),
    { key: 'status', title: words.status, width: '105px', cell: r => <State state={r.status} /> },
    {
      key: 'step',
      title: words.step,
      width: 'minmax(80px, 1fr)',
      cell: r => stepOf(r) || <span class="dim">–</span>,
    },
    { key: 'started', title: words.started, width: '70px', num: true, spare: 1, cell: r => <Ago at={r.started_at} /> },
    { key: 'took', title: words.took, width: '64px', num: true, spare: 2, cell: r => <Took run={r} /> },
    { key: 'by', title: words.by, width: '70px', spare: 4, cell: r => r.triggered_by },
    {
      key: 'error',
      title: words.error,
      width: 'minmax(160px, 3fr)',
      spare: 3,
      cell: r => (
        <span class="crit" title={r.error ?? ''}>
          {whatFailed(r)}
        </span>
      ),
    },
  ]
  return (
    <Panel
      fill
      flush
      label={words.runs}
      tools={
        <>
          <Choice label={words.status} value={status} options={runStates} change={v => view({ status: v })} />
          <span class="dim">
            {strings.many.runs(rows.length)}
            {after ? strings.andMore : ''}
          </span>
        </>
      }
    >
      <Query
        q={q}
        empty={() => rows.length === 0}
        whenEmpty={
          status ? (
            <NoMatch filter={status} clear={() => view({ status: '' })} />
          ) : (
            <NoneIn ns={ns} title={say.noRuns}>
              <Snippet command={floe(['workflow', 'start'], inNamespace(ns), [workflow || 'NAME', '{}'])} />
            </NoneIn>
          )
        }
      >
        {() => (
          <>
            <VirtualRows
              label={words.runs}
              rows={rows}
              columns={columns}
              keyOf={r => r.run_id}
              href={r => link('runs', [r.run_id])}
              atEnd={() => void load()}
            />
            {problem && <div class="note crit">{problem.message}</div>}
          </>
        )}
      </Query>
    </Panel>
  )
}
