import { useMemo, useState } from 'preact/hooks'
import { useRead, useWrite } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { GraphEdge, GraphNode, JobWork } from '../../api/routes'
import { count, duration, rate } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { Confirm } from '../../ui/Dialog'
import { Tabs } from '../../ui/Field'
import { Editor, Graph } from '../../ui/Lazy'
import { Empty, Panel, Query } from '../../ui/Panel'
import { CopyButton, Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Moment } from '../../ui/Time'
import { toast } from '../../ui/toasts'
import { Stat } from '../overview/Overview'
import { useGraph } from '../workflows/Definition'
import { lagOf, type Job } from './Processing'

/** What has gone through each part, as the node counts it: operators each, the job at its only source and only sink. */
export function notesOf(g: { nodes: readonly GraphNode[]; edges: readonly GraphEdge[] }, d: Job, work: JobWork | undefined): Map<string, string> {
  const notes = new Map<string, string>()
  const sources = g.nodes.filter(n => !g.edges.some(e => e.to === n.id))
  const sinks = g.nodes.filter(n => !g.edges.some(e => e.from === n.id))
  const operators = g.nodes.filter(n => !sources.includes(n) && !sinks.includes(n))
  if (sources.length === 1) notes.set(sources[0]!.id, `${count(d.metrics.records_in)} in`)
  if (sinks.length === 1) notes.set(sinks[0]!.id, `${count(d.metrics.records_out)} out`)
  operators.forEach((n, i) => {
    const w = work?.operators[i]
    if (!w) return
    const lost = [w.errors > 0 && `${count(w.errors)} failed`, w.late > 0 && `${count(w.late)} late`].filter(Boolean)
    notes.set(n.id, [`${count(w.in)} → ${count(w.out)}`, ...lost].join(', '))
  })
  return notes
}

export function JobDetail({ id }: { id: string }) {
  const { ns, query } = useRoute()
  const tab = (['definition', 'savepoints'].includes(query['tab'] ?? '') ? query['tab'] : 'graph') as 'graph' | 'definition' | 'savepoints'
  const q = useRead('GET /api/v1/processing/jobs/:id', { id, namespace: ns }, 2000)
  const d = q.data?.data
  const graph = useGraph('processing', d?.yaml)
  const readOnly = useReadOnly()
  const [asking, setAsking] = useState<'stop' | 'cancel' | null>(null)
  const args = { id, namespace: ns }
  const stop = useWrite('PUT /api/v1/processing/jobs/:id/stop', ['/processing'], data => {
    toast('ok', `Job ${d?.name ?? id} is ${data.status.toLowerCase()}.`)
    setAsking(null)
  })
  const cancel = useWrite('DELETE /api/v1/processing/jobs/:id', ['/processing'], data => {
    toast('ok', `Job ${d?.name ?? id} is ${data.status.toLowerCase()}.`)
    setAsking(null)
  })
  const path = `/processing/jobs/${encodeURIComponent(id)}`
  const g = graph.data?.data.graph
  const node = g?.nodes.find(n => n.id === query['node'])
  const over = d !== undefined && ['CANCELLED', 'COMPLETED', 'FAILED'].includes(d.status)
  const work = useRead('GET /api/v1/console/processing/jobs/:id', args, 2000).data?.data
  const notes = useMemo(() => (g && d ? notesOf(g, d, work) : new Map<string, string>()), [g, d, work])
  return (
    <div class="page">
      <div class="head">
        <a class="crumb" href={link('processing')}>
          Processing
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{d?.name ?? id}</h1>
        {d && (
          <>
            <State state={d.status} />
            <span class="dim mono">{d.job_id}</span>
            <CopyButton text={d.job_id} label="Copy the id" />
          </>
        )}
        <span class="row push">
          <button
            class="btn"
            disabled={readOnly !== '' || !d?.metrics.running}
            title={readOnly || (d?.metrics.running ? '' : 'It does not run')}
            onClick={() => setAsking('stop')}
          >
            Stop
          </button>
          <button
            class="btn danger"
            disabled={readOnly !== '' || !d || over}
            title={readOnly || (over ? 'It has ended' : '')}
            onClick={() => setAsking('cancel')}
          >
            Cancel
          </button>
        </span>
      </div>
      <Query q={q} missing={<Empty title={`There is no job ${id}.`} />}>
        {d => (
          <>
            {work?.reason && (
              <div class={d.status === 'FAILED' ? 'note boxed crit' : 'note boxed warn'} role="status" data-test="reason">
                <b>{d.status === 'FAILED' ? strings.jobFailed : strings.jobWaits}</b> {work.reason}
              </div>
            )}
            <div class="stats" data-test="job">
              <Stat label="Records in" value={count(d.metrics.records_in)} more={`${rate(d.metrics.throughput_per_sec)} /s`} />
              <Stat label="Records out" value={count(d.metrics.records_out)} more={`${rate(d.metrics.output_per_sec)} /s`} />
              <Stat label="Watermark lag" value={lagOf(d)} />
              <Stat
                label="Tick"
                value={d.metrics.latency_avg_ms > 0 ? duration(d.metrics.latency_avg_ms) : '–'}
                more={`last ${duration(d.metrics.latency_last_ms)}, most ${duration(d.metrics.latency_max_ms)}`}
              />
              <Stat
                label="Last read"
                value={`${count(d.metrics.last_read_count)} of ${count(d.metrics.batch_size)}`}
                tone={d.metrics.last_read_count >= d.metrics.batch_size ? 'warn' : ''}
                more={d.metrics.last_read_count >= d.metrics.batch_size ? 'saturated' : ''}
              />
              <Stat label="Idle" value={d.metrics.running ? duration(d.metrics.idle_ms) : '–'} />
              <Stat label="Parallelism" value={count(d.parallelism)} />
              {work && (
                <Stat
                  label="Errors"
                  value={count(work.errors)}
                  tone={work.errors > 0 ? 'crit' : ''}
                  more={`${count(work.late)} late, ${count(work.dropped)} dropped`}
                  {...(work.errors > 0 ? { href: link('streams', [`${d.name}.errors`]) } : {})}
                />
              )}
            </div>
          </>
        )}
      </Query>
      <Tabs
        label="Parts"
        value={tab}
        options={
          [
            ['graph', 'Graph'],
            ['definition', 'Definition'],
            ['savepoints', `Savepoints ${count(d?.savepoints.length)}`],
          ] as const
        }
        change={t => view({ tab: t === 'graph' ? '' : t, node: '' })}
      />
      {d && tab === 'graph' && (
        <Panel label="Graph">
          <Query q={graph}>
            {v =>
              v.graph.nodes.length === 0 ? (
                <p class="dim">The pipeline can not be drawn.</p>
              ) : (
                <Graph
                  label={`Pipeline of ${d.name}`}
                  nodes={v.graph.nodes}
                  edges={v.graph.edges}
                  note={n => notes.get(n.id) ?? ''}
                  selected={query['node'] ?? ''}
                  select={n => view({ node: query['node'] === n ? '' : n })}
                />
              )
            }
          </Query>
        </Panel>
      )}
      {d && (tab === 'definition' || node) && tab !== 'savepoints' && (
        <Panel title={node ? `${node.id}, line ${node.line}` : 'Definition'} tools={<CopyButton text={d.yaml} label="Copy the definition" />}>
          <Editor value={d.yaml} language="yaml" label="Definition" {...(node ? { line: node.line } : {})} />
        </Panel>
      )}
      {d && tab === 'savepoints' && (
        <Panel flush label="Savepoints">
          {d.savepoints.length === 0 ? (
            <Empty title="There are no savepoints.">
              <Snippet command={floe(['processing', 'savepoint'], inNamespace(ns), [id])} />
            </Empty>
          ) : (
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">Savepoint</th>
                  <th scope="col">Made</th>
                  <th scope="col" class="num">
                    Records
                  </th>
                  <th scope="col">Restore</th>
                </tr>
              </thead>
              <tbody>
                {d.savepoints.map(s => (
                  <tr key={s.id}>
                    <td class="mono">{s.id}</td>
                    <td>
                      <Moment at={s.created_at} />
                    </td>
                    <td class="num">{count(s.records_processed)}</td>
                    <td class="row">
                      <code>{floe(['processing', 'restore'], inNamespace(ns), [id, s.id])}</code>
                      <CopyButton text={floe(['processing', 'restore'], inNamespace(ns), [id, s.id])} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Panel>
      )}
      {asking === 'stop' && d && (
        <Confirm
          title={`Stop the job ${d.name}?`}
          action="Stop"
          danger={false}
          pending={stop.isPending}
          error={stop.error?.message}
          close={() => setAsking(null)}
          act={() => stop.mutate({ args })}
        >
          <p>
            The job <code>{d.name}</code> ({d.job_id}), namespace <code>{ns}</code>, reads no more records. What it has counted stays, and it can be restored
            from a savepoint.
          </p>
          <Snippet command={floe(['processing', 'stop'], inNamespace(ns), [id])} call={curl('PUT', path + '/stop', { namespace: ns })} />
        </Confirm>
      )}
      {asking === 'cancel' && d && (
        <Confirm
          title={`Cancel the job ${d.name}?`}
          action="Cancel the job"
          pending={cancel.isPending}
          error={cancel.error?.message}
          close={() => setAsking(null)}
          act={() => cancel.mutate({ args })}
        >
          <p>
            The job <code>{d.name}</code> ({d.job_id}), namespace <code>{ns}</code>, ends for good: unlike a job that is stopped it can not be restored.
          </p>
          <Snippet command={floe(['processing', 'cancel'], inNamespace(ns), [id])} call={curl('DELETE', path, { namespace: ns })} />
        </Confirm>
      )}
    </div>
  )
}
