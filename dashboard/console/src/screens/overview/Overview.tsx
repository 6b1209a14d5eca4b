import { lazy, Suspense } from 'preact/compat'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { useMe, useReadOnly } from '../../api/me'
import { useMissing, useNamespaces } from '../../api/namespaces'
import { bytes, count, duration, rate, short } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { Meter, rates } from '../../lib/rate'
import { link, useRoute } from '../../lib/router'
import { lost, Panel, Query } from '../../ui/Panel'
import { Spark } from '../../ui/Spark'
import { State } from '../../ui/State'
import { Table } from '../../ui/Table'
import { useShards } from '../../ui/Unled'
import { Problems } from './Problems'
import { strings } from '../../strings'
import { overview as say } from '../../strings/overview'
import { Sentence } from '../../ui/Sentence'

const words = strings.words

const NewNamespace = lazy(() => import('./NewNamespace'))

const window5 = 5 * 60_000
const steps = 300
const lately = 10 // seconds: that of one is as the weather

interface Rates {
  values: (number | null)[]
  now: number | null
  peak: number
}

/** The last five minutes of a counter: as the node remembers them, or else from the first read on. */
function useRates(kept: readonly number[] | undefined, total: number | undefined, readAt: number): Rates {
  const meter = useMemo(() => new Meter(window5), [])
  const [, redraw] = useState(0)
  useEffect(() => {
    if (total === undefined || !readAt) return
    meter.add(readAt, total)
    redraw(n => n + 1)
  }, [total, readAt])
  if (kept && kept.length > 1) {
    // A node that has just started has less than five minutes behind it: the line keeps its scale.
    const values = [...Array<null>(Math.max(0, steps - kept.length)).fill(null), ...kept]
    const last = kept.slice(-lately)
    return { values, now: last.reduce((a, b) => a + b, 0) / last.length, peak: Math.max(0, ...kept) }
  }
  const values = rates(meter.samples).map(o => o.value)
  return { values, now: meter.now(), peak: Math.max(0, ...values.map(v => v ?? 0)) }
}

/** Marks the figures of the whole node, which stand beside those of one namespace. */
const everywhere = <span class="tag">{strings.allNamespaces}</span>

export default function Overview() {
  const { ns } = useRoute()
  const stats = useRead('GET /api/v1/cluster/stats', {}, 2000)
  const metrics = useRead('GET /api/v1/metrics', {}, 5000)
  const namespaces = useNamespaces()
  const missing = useMissing(ns)
  const s = stats.data?.data
  const kept = useRead('GET /api/v1/console/rates', {}, 2000).data?.data
  const commands = useRates(kept?.commands, s?.commands_total, stats.data?.at ?? 0)
  const received = useRates(kept?.bytes_in, s?.bytes_received, stats.data?.at ?? 0)
  const sent = useRates(kept?.bytes_out, s?.bytes_sent, stats.data?.at ?? 0)
  const me = useMe()
  const readOnly = useReadOnly()
  const [creating, setCreating] = useState(false)
  useKeys(readOnly ? {} : { n: () => setCreating(true) })
  return (
    <div class="page">
      <div class="head">
        <h1 tabIndex={-1}>{words.overview}</h1>
        <span class="dim">{me.role === 'admin' ? '' : say.role(me.role)}</span>
        <button class="btn push" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setCreating(true)}>
          {say.newNamespace}
        </button>
      </div>
      {creating && (
        <Suspense fallback={null}>
          <NewNamespace suggestion={missing ? ns : ''} close={() => setCreating(false)} />
        </Suspense>
      )}
      <Panel title={say.cluster} tools={everywhere} flush>
        <Query q={stats}>
          {s => (
            <div class="stats" style={{ border: 0, borderRadius: 0 }} data-test="cluster">
              <Stat label={say.commandsPerSecond} value={count(s.rps)} more={say.lately} />
              <Stat label={words.commands} value={short(s.commands_total)} title={count(s.commands_total)} more={say.sinceStart} />
              <Stat label={words.connections} value={count(s.active_connections)} />
              <Stat label={say.waitingReads} value={count(s.subscriptions)} more={say.readsHint} />
              <Stat label={words.shards} value={count(s.num_shards)} />
              <Stat label={words.uptime} value={uptime(metrics.data?.data.server.uptime_seconds, s.uptime)} more={strings.version(s.version)} />
            </div>
          )}
        </Query>
      </Panel>
      <Problems ns={ns} missing={missing} />
      <div class="grid-2">
        <Panel
          title={say.commandRate}
          tools={
            <>
              {everywhere}
              <span class="push dim">
                <Sentence of={say.rateNow} put={{ now: <b>{commands.now === null ? '–' : rate(commands.now)}</b>, peak: <b>{rate(commands.peak)}</b> }} />
              </span>
            </>
          }
        >
          {commands.values.length > 1 ? (
            <>
              <Spark values={commands.values} height={84} label={say.rateLabel(rate(commands.now ?? 0), rate(commands.peak))} />
              <div class="spark-axis dim" aria-hidden="true">
                <span>{say.fiveMinutesAgo}</span>
                <span>{words.now}</span>
              </div>
            </>
          ) : (
            <p class="dim">{say.rateLater}</p>
          )}
        </Panel>
        <Panel title={words.traffic} tools={everywhere}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">{words.direction}</th>
                <th scope="col">
                  <span class="sr">{say.fiveMinutes}</span>
                </th>
                <th scope="col" class="num">
                  {say.perSecond}
                </th>
                <th scope="col" class="num">
                  {say.sinceStartTitle}
                </th>
              </tr>
            </thead>
            <tbody>
              <tr>
                <td>{words.received}</td>
                <td>
                  <Spark values={received.values} height={24} label={say.receivedLabel(bytes(received.peak))} />
                </td>
                <td class="num">{received.now === null ? '–' : bytes(Math.round(received.now))}</td>
                <td class="num">{s ? bytes(s.bytes_received) : '–'}</td>
              </tr>
              <tr>
                <td>{words.sent}</td>
                <td>
                  <Spark values={sent.values} height={24} label={say.sentLabel(bytes(sent.peak))} />
                </td>
                <td class="num">{sent.now === null ? '–' : bytes(Math.round(sent.now))}</td>
                <td class="num">{s ? bytes(s.bytes_sent) : '–'}</td>
              </tr>
            </tbody>
          </table>
        </Panel>
      </div>
      {!missing && (
        <Panel
          title={say.namespace(ns)}
          tools={
            metrics.data && <span class="push dim">{say.everywhere(metrics.data.data.streams, metrics.data.data.queues, metrics.data.data.kv_namespaces)}</span>
          }
          flush
        >
          <Query q={namespaces}>
            {all => {
              const n = all.find(x => x.name === ns)
              if (!n) return null
              return (
                <div class="stats" style={{ border: 0, borderRadius: 0 }} data-test="namespace">
                  <Stat label={words.keys} value={short(n.kv_count)} href={link('kv')} />
                  <Stat label={words.streams} value={short(n.stream_count)} href={link('streams')} />
                  <Stat label={words.queues} value={short(n.queue_count)} href={link('queues')} />
                  <Stat label={words.actions} value={short(n.action_count)} href={link('actions')} />
                  <Stat label={words.workflows} value={short(n.workflow_count)} href={link('workflows')} />
                  <Stat label={words.jobs} value={short(n.processing_count)} href={link('processing')} />
                </div>
              )
            }}
          </Query>
        </Panel>
      )}
      <div class="grid-2">
        <Panel title={words.workflows} tools={everywhere} flush>
          <Query q={metrics}>
            {m => (
              <div class="stats" style={{ border: 0, borderRadius: 0 }} data-test="workflows">
                <Stat label={say.activeRuns} value={short(m.workflows.active_runs)} />
                <Stat label={words.started} value={short(m.workflows.started_total)} />
                <Stat label={words.completed} value={short(m.workflows.completed_total)} />
                <Stat label={words.failed} value={short(m.workflows.failed_total)} tone={m.workflows.failed_total > 0 ? 'crit' : ''} />
                <Stat label={words.timedOut} value={short(m.workflows.timed_out_total)} tone={m.workflows.timed_out_total > 0 ? 'warn' : ''} />
                <Stat label={words.cancelled} value={short(m.workflows.cancelled_total)} />
                <Stat label={words.steps} value={short(m.workflows.steps_executed_total)} />
                <Stat label={words.signals} value={short(m.workflows.signals_delivered_total)} />
                <Stat label={words.timers} value={short(m.workflows.timers_fired_total)} />
                <Stat label={words.schedules} value={short(m.workflows.active_schedules)} />
              </div>
            )}
          </Query>
        </Panel>
        <div class="stack">
          <Panel title={words.nodes} flush>
            <Query q={stats}>
              {s => (
                <Table label={words.nodes} heads={[words.node, words.status, words.role]} test="nodes">
                  {[...s.nodes]
                    .sort((a, b) => Number(a.status === 'healthy') - Number(b.status === 'healthy'))
                    .map(n => (
                      <tr key={n.id}>
                        <td class="mono">{n.id}</td>
                        <td>
                          <State state={lost(stats) ? 'unknown' : n.status} />
                        </td>
                        <td>{n.role}</td>
                      </tr>
                    ))}
                </Table>
              )}
            </Query>
          </Panel>
          <Shards />
        </div>
      </div>
    </div>
  )
}

const mostShards = 16
/** So many entries of its log may a replica have before it that reads do not see yet. */
const muchBehind = 1000

/** The shards, those without a leader first, then those of which the node knows less than others. */
function Shards() {
  const q = useShards()
  return (
    <Panel title={words.shards} flush>
      <Query q={q}>
        {all => (
          <>
            <Table label={words.shards} heads={[say.shard, words.status, words.leader, say.lsn, say.queued, say.waiting]} test="shards">
              {[...all]
                .sort((a, b) => Number(a.leader !== 0) - Number(b.leader !== 0) || b.behind - a.behind || a.id - b.id)
                .slice(0, mostShards)
                .map(s => (
                  <tr key={s.id}>
                    <td class="mono">{s.id}</td>
                    <td>
                      {lost(q) ? (
                        <State state="unknown" />
                      ) : s.leader === 0 ? (
                        <State state="unavailable" word={say.noLeader} />
                      ) : s.behind > muchBehind ? (
                        <State state="lagging" word={say.behind(s.behind)} />
                      ) : (
                        <State state="healthy" />
                      )}
                    </td>
                    <td class="mono">{s.leader === 0 ? '–' : s.leader}</td>
                    <td class="num">{count(s.lsn)}</td>
                    <td class="num">{count(s.queued)}</td>
                    <td class="num">{count(s.waiting)}</td>
                  </tr>
                ))}
            </Table>
            {all.length > mostShards && <div class="note">{strings.theFirst(mostShards, all.length)}</div>}
          </>
        )}
      </Query>
    </Panel>
  )
}

function uptime(seconds: number | undefined, text: string): string {
  return seconds === undefined ? text : duration(seconds * 1000)
}

interface StatProps {
  label: string
  value: string
  more?: string
  href?: string
  tone?: string
  title?: string
  dot?: string // the colour that it has elsewhere on the screen, a class
}

/** A figure with its name; with an address it is a link. */
export function Stat({ label, value, more, href, tone, title, dot }: StatProps) {
  const inner = (
    <>
      <span class="label">
        {dot && <i class={`stat-dot ${dot}`} aria-hidden="true" />}
        {label}
      </span>
      <span class={`value ${tone ?? ''}`} title={title}>
        {value}
      </span>
      {more && (
        <span class="more" title={more}>
          {more}
        </span>
      )}
    </>
  )
  return href ? <a href={href}>{inner}</a> : <div>{inner}</div>
}
