import { useEffect, useMemo, useState } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import { useMe } from '../../api/me'
import { bytes, count, duration, rate, short } from '../../lib/format'
import { Meter, rates } from '../../lib/rate'
import { link, useRoute } from '../../lib/router'
import { Panel, Query } from '../../ui/Panel'
import { Spark } from '../../ui/Spark'
import { State } from '../../ui/State'
import { Table } from '../../ui/Table'
import { Problems } from './Problems'

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

export default function Overview() {
  const { ns } = useRoute()
  const stats = useRead('GET /api/v1/cluster/stats', {}, 2000)
  const metrics = useRead('GET /api/v1/metrics', {}, 5000)
  const namespaces = useRead('GET /api/v1/namespaces', {}, 15_000)
  const s = stats.data?.data
  const kept = useRead('GET /api/v1/console/rates', {}, 2000).data?.data
  const commands = useRates(kept?.commands, s?.commands_total, stats.data?.at ?? 0)
  const received = useRates(kept?.bytes_in, s?.bytes_received, stats.data?.at ?? 0)
  const sent = useRates(kept?.bytes_out, s?.bytes_sent, stats.data?.at ?? 0)
  const me = useMe()
  return (
    <div class="page">
      <div class="head">
        <h1 tabIndex={-1}>Overview</h1>
        <span class="dim">{me.role === 'admin' ? '' : `role ${me.role}`}</span>
      </div>
      <Query q={stats}>
        {s => (
          <div class="stats" data-test="cluster">
            <Stat label="Commands per second" value={count(s.rps)} more="over the last 10 s" />
            <Stat label="Commands" value={short(s.commands_total)} title={count(s.commands_total)} more="since the start" />
            <Stat label="Connections" value={count(s.active_connections)} />
            <Stat label="Waiting reads" value={count(s.subscriptions)} more="long polls and watches" />
            <Stat label="Shards" value={count(s.num_shards)} />
            <Stat label="Uptime" value={uptime(metrics.data?.data.server.uptime_seconds, s.uptime)} more={`version ${s.version}`} />
          </div>
        )}
      </Query>
      <Problems ns={ns} />
      <div class="grid-2">
        <Panel
          title="Command rate"
          tools={
            <span class="push dim">
              now <b>{commands.now === null ? '–' : rate(commands.now)}</b>/s · peak <b>{rate(commands.peak)}</b>/s · 5 minutes
            </span>
          }
        >
          {commands.values.length > 1 ? (
            <>
              <Spark
                values={commands.values}
                height={84}
                label={`Commands per second over five minutes, now ${rate(commands.now ?? 0)}, at most ${rate(commands.peak)}`}
              />
              <div class="spark-axis dim" aria-hidden="true">
                <span>5 minutes ago</span>
                <span>now</span>
              </div>
            </>
          ) : (
            <p class="dim">The line begins with the next reading.</p>
          )}
        </Panel>
        <Panel title="Traffic">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Direction</th>
                <th scope="col">
                  <span class="sr">Five minutes</span>
                </th>
                <th scope="col" class="num">
                  Per second
                </th>
                <th scope="col" class="num">
                  Since the start
                </th>
              </tr>
            </thead>
            <tbody>
              <tr>
                <td>Received</td>
                <td>
                  <Spark values={received.values} height={24} label={`Received per second over five minutes, at most ${bytes(received.peak)}`} />
                </td>
                <td class="num">{received.now === null ? '–' : bytes(Math.round(received.now))}</td>
                <td class="num">{s ? bytes(s.bytes_received) : '–'}</td>
              </tr>
              <tr>
                <td>Sent</td>
                <td>
                  <Spark values={sent.values} height={24} label={`Sent per second over five minutes, at most ${bytes(sent.peak)}`} />
                </td>
                <td class="num">{sent.now === null ? '–' : bytes(Math.round(sent.now))}</td>
                <td class="num">{s ? bytes(s.bytes_sent) : '–'}</td>
              </tr>
            </tbody>
          </table>
        </Panel>
      </div>
      <Panel
        title={`Namespace ${ns}`}
        tools={
          metrics.data && (
            <span class="push dim">
              all namespaces: {count(metrics.data.data.streams)} streams, {count(metrics.data.data.queues)} queues, {count(metrics.data.data.kv_namespaces)} KV
              namespaces
            </span>
          )
        }
        flush
      >
        <Query q={namespaces}>
          {all => {
            const n = all.find(x => x.name === ns)
            if (!n) return <p class="blank">This namespace does not exist yet. The first write creates it.</p>
            return (
              <div class="stats" style={{ border: 0, borderRadius: 0 }} data-test="namespace">
                <Stat label="Keys" value={short(n.kv_count)} href={link('kv')} />
                <Stat label="Streams" value={short(n.stream_count)} href={link('streams')} />
                <Stat label="Queues" value={short(n.queue_count)} href={link('queues')} />
                <Stat label="Actions" value={short(n.action_count)} href={link('actions')} />
                <Stat label="Workflows" value={short(n.workflow_count)} href={link('workflows')} />
                <Stat label="Jobs" value={short(n.processing_count)} href={link('processing')} />
              </div>
            )
          }}
        </Query>
      </Panel>
      <div class="grid-2">
        <Panel title="Workflows" flush>
          <Query q={metrics}>
            {m => (
              <div class="stats" style={{ border: 0, borderRadius: 0 }} data-test="workflows">
                <Stat label="Active runs" value={short(m.workflows.active_runs)} href={link('workflows', [], { tab: 'runs' })} />
                <Stat label="Started" value={short(m.workflows.started_total)} />
                <Stat label="Completed" value={short(m.workflows.completed_total)} href={link('workflows', [], { tab: 'runs', status: 'completed' })} />
                <Stat
                  label="Failed"
                  value={short(m.workflows.failed_total)}
                  tone={m.workflows.failed_total > 0 ? 'crit' : ''}
                  href={link('workflows', [], { tab: 'runs', status: 'failed' })}
                />
                <Stat
                  label="Timed out"
                  value={short(m.workflows.timed_out_total)}
                  tone={m.workflows.timed_out_total > 0 ? 'warn' : ''}
                  href={link('workflows', [], { tab: 'runs', status: 'timed_out' })}
                />
                <Stat label="Cancelled" value={short(m.workflows.cancelled_total)} href={link('workflows', [], { tab: 'runs', status: 'cancelled' })} />
                <Stat label="Steps" value={short(m.workflows.steps_executed_total)} />
                <Stat label="Signals" value={short(m.workflows.signals_delivered_total)} />
                <Stat label="Timers" value={short(m.workflows.timers_fired_total)} />
                <Stat label="Schedules" value={short(m.workflows.active_schedules)} />
              </div>
            )}
          </Query>
        </Panel>
        <Panel title="Nodes" flush>
          <Query q={stats}>
            {s => (
              <Table label="Nodes" heads={['Node', 'Status', 'Role']} test="nodes">
                {[...s.nodes]
                  .sort((a, b) => Number(a.status === 'healthy') - Number(b.status === 'healthy'))
                  .map(n => (
                    <tr key={n.id}>
                      <td class="mono">{n.id}</td>
                      <td>
                        <State state={n.status} />
                      </td>
                      <td>{n.role}</td>
                    </tr>
                  ))}
              </Table>
            )}
          </Query>
        </Panel>
      </div>
    </div>
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
