import { useMemo, useState } from 'preact/hooks'
import { useRead, useWrite } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { GraphEdge, GraphNode, JobFailure, JobWork } from '../../api/routes'
import { count, duration, rate } from '../../lib/format'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { strings } from '../../strings'
import { processing as say } from '../../strings/processing'
import { Act } from '../../ui/Act'
import { Confirm } from '../../ui/Dialog'
import { Tabs } from '../../ui/Field'
import { Editor, Graph } from '../../ui/Lazy'
import { absent, Empty, Panel, Query } from '../../ui/Panel'
import { CopyButton, Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Moment } from '../../ui/Time'
import { toast } from '../../ui/toasts'
import { Stat } from '../overview/Overview'
import { useGraph } from '../workflows/Definition'
import { lagOf, type Job } from './Processing'
import { Submit } from './Submit'
import { Sentence } from '../../ui/Sentence'

const words = strings.words

/** What has gone through each part, as the node counts it: operators each, the job at its only source and only sink. */
export function notesOf(g: { nodes: readonly GraphNode[]; edges: readonly GraphEdge[] }, d: Job, work: JobWork | undefined): Map<string, string> {
  const notes = new Map<string, string>()
  const sources = g.nodes.filter(n => !g.edges.some(e => e.to === n.id))
  const sinks = g.nodes.filter(n => !g.edges.some(e => e.from === n.id))
  const operators = g.nodes.filter(n => !sources.includes(n) && !sinks.includes(n))
  if (sources.length === 1) notes.set(sources[0]!.id, say.noteIn(d.metrics.records_in))
  if (sinks.length === 1) notes.set(sinks[0]!.id, say.noteOut(d.metrics.records_out))
  operators.forEach((n, i) => {
    const w = work?.operators[i]
    if (!w) return
    const lost = [w.errors > 0 && say.noteFailed(w.errors), w.late > 0 && say.noteLate(w.late)].filter(Boolean)
    notes.set(n.id, [`${count(w.in)} → ${count(w.out)}`, ...lost].join(', '))
  })
  return notes
}

/** The position of the record that failed a job, with a link to its stream. */
function FailedRecord({ f }: { f: JobFailure }) {
  return (
    <p data-test="failed-record">
      <Sentence
        of={say.failedRecord(f.partition, f.offset)}
        put={{
          stream: <a href={link('streams', [f.stream], { p: String(f.partition), msg: f.record_id })}>{f.stream}</a>,
          id: <b class="mono">{f.record_id}</b>,
        }}
      />
    </p>
  )
}

export function JobDetail({ id }: { id: string }) {
  const { ns, query } = useRoute()
  const tab = (['definition', 'savepoints'].includes(query['tab'] ?? '') ? query['tab'] : 'graph') as 'graph' | 'definition' | 'savepoints'
  const q = useRead('GET /api/v1/processing/jobs/:id', { id, namespace: ns, fields: 'all' }, 2000)
  const d = q.data?.data
  const graph = useGraph('processing', d?.yaml)
  const readOnly = useReadOnly()
  const [asking, setAsking] = useState<'stop' | 'cancel' | 'change' | null>(null)
  const args = { id, namespace: ns }
  const stop = useWrite('PUT /api/v1/processing/jobs/:id/stop', ['/processing'], data => {
    toast('ok', say.jobIs(d?.name ?? id, data.status.toLowerCase()))
    setAsking(null)
  })
  const cancel = useWrite('DELETE /api/v1/processing/jobs/:id', ['/processing'], data => {
    toast('ok', say.jobIs(d?.name ?? id, data.status.toLowerCase()))
    setAsking(null)
  })
  const path = `/processing/jobs/${encodeURIComponent(id)}`
  const g = graph.data?.data.graph
  const node = g?.nodes.find(n => n.id === query['node'])
  const over = d !== undefined && ['CANCELLED', 'COMPLETED', 'FAILED'].includes(d.status)
  const resumable = d !== undefined && ['STOPPED', 'FAILED'].includes(d.status)
  const work = useRead('GET /api/v1/console/processing/jobs/:id', args, 2000).data?.data
  const notes = useMemo(() => (g && d ? notesOf(g, d, work) : new Map<string, string>()), [g, d, work])
  return (
    <div class="page">
      <div class="head">
        <a class="crumb" href={link('processing')}>
          {words.processing}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{d?.name ?? id}</h1>
        {d && (
          <>
            <State state={d.status} />
            <span class="dim mono">{d.job_id}</span>
            <CopyButton text={d.job_id} label={say.copyTheId} />
          </>
        )}
        <span class="row wrap push">
          <button class="btn" disabled={readOnly !== '' || !d || d.status === 'CANCELLED'} title={readOnly} onClick={() => setAsking('change')}>
            {say.change}
          </button>
          {resumable && (
            <Act
              label={say.resume}
              title={say.askResume(d.name)}
              route="PUT /api/v1/processing/jobs/:id/start"
              write={{ args }}
              touched={['/processing']}
              done={x => say.jobIs(d.name, x.status.toLowerCase())}
              command={floe(['processing', 'restore'], inNamespace(ns), [id])}
              call={curl('PUT', path + '/start', { namespace: ns })}
            >
              <Sentence of={say.willResume} put={{ job: <code>{d.name}</code>, id: d.job_id, ns: <code>{ns}</code> }} />
            </Act>
          )}
          <button
            class="btn"
            disabled={readOnly !== '' || !d?.metrics.running}
            title={readOnly || (d?.metrics.running ? '' : say.notRunning)}
            onClick={() => setAsking('stop')}
          >
            {words.stop}
          </button>
          <button
            class="btn danger"
            disabled={readOnly !== '' || !d || over}
            title={readOnly || (over ? words.hasEnded : '')}
            onClick={() => setAsking('cancel')}
          >
            {strings.cancel}
          </button>
        </span>
      </div>
      <Query q={q} missing={<Empty title={say.missing(id)} />}>
        {d => (
          <>
            {work?.reason && (
              <div class={d.status === 'FAILED' ? 'note boxed crit' : 'note boxed warn'} role="status" data-test="reason">
                <b>{d.status === 'FAILED' ? strings.jobFailed : strings.jobWaits}</b> {work.reason}
                {work.failure && work.failure.stream !== '' && <FailedRecord f={work.failure} />}
              </div>
            )}
            <div class="stats" data-test="job">
              <Stat label={say.recordsIn} value={count(d.metrics.records_in)} more={`${rate(d.metrics.throughput_per_sec)} /s`} />
              <Stat label={say.recordsOut} value={count(d.metrics.records_out)} more={`${rate(d.metrics.output_per_sec)} /s`} />
              <Stat label={say.watermarkLag} value={lagOf(d)} />
              <Stat
                label={words.tick}
                value={d.metrics.latency_avg_ms > 0 ? duration(d.metrics.latency_avg_ms) : '–'}
                more={say.tickMore(duration(d.metrics.latency_last_ms), duration(d.metrics.latency_max_ms))}
              />
              <Stat
                label={say.lastRead}
                value={strings.ofAll(count(d.metrics.last_read_count), count(d.metrics.batch_size))}
                tone={d.metrics.last_read_count >= d.metrics.batch_size ? 'warn' : ''}
                more={d.metrics.last_read_count >= d.metrics.batch_size ? say.saturated : ''}
              />
              <Stat label={words.idle} value={d.metrics.running ? duration(d.metrics.idle_ms) : '–'} />
              <Stat label={words.parallelism} value={count(d.parallelism)} />
              {work && (
                <Stat
                  label={words.errors}
                  value={count(work.errors)}
                  tone={work.errors > 0 ? 'crit' : ''}
                  more={say.lost(count(work.late), count(work.dropped))}
                  {...(work.errors > 0 ? { href: link('streams', [`${d.name}.errors`]) } : {})}
                />
              )}
            </div>
          </>
        )}
      </Query>
      {!absent(q) && (
        <Tabs
          label={words.parts}
          value={tab}
          options={
            [
              ['graph', words.graph],
              ['definition', words.definition],
              ['savepoints', say.savepointsTab(count(d?.savepoints.length))],
            ] as const
          }
          change={t => view({ tab: t === 'graph' ? '' : t, node: '' })}
        />
      )}
      {d && tab === 'graph' && (
        <Panel label={words.graph}>
          <Query q={graph}>
            {v =>
              v.graph.nodes.length === 0 ? (
                <p class="dim">{say.undrawable}</p>
              ) : (
                <Graph
                  label={say.pipelineOf(d.name)}
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
        <Panel title={node ? say.nodeLine(node.id, node.line) : words.definition} tools={<CopyButton text={d.yaml} label={words.copyDefinition} />}>
          <Editor value={d.yaml} language="yaml" label={words.definition} {...(node ? { line: node.line } : {})} />
        </Panel>
      )}
      {d && tab === 'savepoints' && (
        <Panel
          flush
          label={words.savepoints}
          tools={
            <Act
              label={say.createSavepoint}
              title={say.askSavepoint(d.name)}
              off={d.metrics.running ? '' : say.notRunning}
              route="POST /api/v1/processing/jobs/:id/savepoints"
              write={{ args }}
              touched={['/processing']}
              done={s => say.isSaved(s.id)}
              command={floe(['processing', 'savepoint'], inNamespace(ns), [id])}
              call={curl('POST', path + '/savepoints', { namespace: ns })}
            >
              <Sentence of={say.willSave} put={{ job: <code>{d.name}</code>, id: d.job_id, ns: <code>{ns}</code> }} />
            </Act>
          }
        >
          {d.savepoints.length === 0 ? (
            <Empty title={say.noSavepoints} />
          ) : (
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">{words.savepoint}</th>
                  <th scope="col">{words.made}</th>
                  <th scope="col" class="num">
                    {words.records}
                  </th>
                  <th scope="col">{words.restore}</th>
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
                    <td>
                      <Act
                        label={words.restore}
                        title={say.askRestore(s.id)}
                        off={resumable ? '' : over ? words.hasEnded : say.stopFirst}
                        danger
                        route="POST /api/v1/processing/jobs/:id/restore"
                        write={{ args: { ...args, savepoint: s.id } }}
                        touched={['/processing']}
                        done={x => say.jobIs(d.name, x.status.toLowerCase())}
                        command={floe(['processing', 'restore'], inNamespace(ns), [id, s.id])}
                        call={curl('POST', path + '/restore', { namespace: ns, savepoint: s.id })}
                      >
                        <Sentence
                          of={say.willRestore}
                          put={{ job: <code>{d.name}</code>, id: d.job_id, ns: <code>{ns}</code>, savepoint: <code>{s.id}</code> }}
                        />
                      </Act>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Panel>
      )}
      {asking === 'change' && d && <Submit ns={ns} of={d} close={() => setAsking(null)} opened={job => go(link('processing', [job], {}, ns))} />}
      {asking === 'stop' && d && (
        <Confirm
          title={say.askStop(d.name)}
          action={words.stop}
          danger={false}
          pending={stop.isPending}
          error={stop.error?.message}
          close={() => setAsking(null)}
          act={() => stop.mutate({ args })}
        >
          <p>
            <Sentence of={say.willStop} put={{ job: <code>{d.name}</code>, id: d.job_id, ns: <code>{ns}</code> }} />
          </p>
          <Snippet command={floe(['processing', 'stop'], inNamespace(ns), [id])} call={curl('PUT', path + '/stop', { namespace: ns })} />
        </Confirm>
      )}
      {asking === 'cancel' && d && (
        <Confirm
          title={say.askCancel(d.name)}
          action={say.cancelJob}
          pending={cancel.isPending}
          error={cancel.error?.message}
          close={() => setAsking(null)}
          act={() => cancel.mutate({ args })}
        >
          <p>
            <Sentence of={say.willEnd} put={{ job: <code>{d.name}</code>, id: d.job_id, ns: <code>{ns}</code> }} />
          </p>
          <Snippet command={floe(['processing', 'cancel'], inNamespace(ns), [id])} call={curl('DELETE', path, { namespace: ns })} />
        </Confirm>
      )}
    </div>
  )
}
