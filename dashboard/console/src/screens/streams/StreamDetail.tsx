import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { serverNow } from '../../api/client'
import { useRead } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Activity, Routes } from '../../api/routes'
import { bytes, count, kept } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { rateOf, useMeters } from '../../lib/meters'
import { niceStep, parseRange } from '../../lib/range'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { ByCommand } from '../../ui/ByCommand'
import { Segmented, Tabs } from '../../ui/Field'
import { absent, Boundary, Empty, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Tape, type Cursor } from '../../ui/Tape'
import { Moment } from '../../ui/Time'
import { Table } from '../../ui/Table'
import { Stat } from '../overview/Overview'
import { Append } from './Append'
import { Groups } from './Groups'
import { lastMessages, Messages, route as messagesRoute } from './Messages'
import { Retention } from './Retention'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'

const words = strings.words

export type Detail = Routes['GET /api/v1/streams/:name']

const buckets = 120
export const millisOf = (id: string) => Number(id.split('-')[0])

export function StreamDetail({ name }: { name: string }) {
  const { ns, query } = useRoute()
  const tab = (['partitions', 'groups'].includes(query['tab'] ?? '') ? query['tab'] : 'messages') as 'messages' | 'partitions' | 'groups'
  const q = useRead('GET /api/v1/streams/:name', { name, namespace: ns }, 2000, { rates: true })
  const s = q.data?.data
  const ingest = useMeters(
    `stream ingest ${ns}`,
    s ? [s] : [],
    q.data?.at,
    d => d.name,
    d => d.ingest_rate,
  )
  const state = useRead('GET /api/v1/console/streams/:name', { name, namespace: ns }, 0, { enabled: !!s }).data?.data
  const readOnly = useReadOnly()
  const [form, setForm] = useState<'' | 'append' | 'retention'>('')
  useKeys(readOnly || !s ? {} : { n: () => setForm('append') })
  const worst = s ? Math.max(0, ...s.consumer_groups.map(g => g.lag)) : 0
  return (
    <div class="page fixed">
      <div class="head">
        <a class="crumb" href={link('streams')}>
          {words.streams}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{name}</h1>
        {s && (
          <>
            <span class="dim">{strings.keeps(kept(s.retention))}</span>
            <span class="row wrap push">
              <button class="btn" disabled={readOnly !== '' || !state} title={readOnly} onClick={() => setForm('retention')}>
                {words.retention}
              </button>
              <button class="btn primary" disabled={readOnly !== ''} title={readOnly || 'n'} onClick={() => setForm('append')}>
                {words.append}
              </button>
            </span>
          </>
        )}
      </div>
      <Query
        q={q}
        missing={
          <Empty title={say.missing(name, ns)}>
            <Snippet command={floe(['stream', 'append'], inNamespace(ns), [name, '{"type":"hello"}'])} />
          </Empty>
        }
      >
        {d => (
          <>
            <div class="stats" data-test="stream">
              <Stat label={words.records} value={count(d.partitions.reduce((n, p) => n + p.records, 0))} />
              <Stat label={words.bytes} value={bytes(d.partitions.reduce((n, p) => n + p.bytes, 0))} />
              <Stat label={words.in} value={`${rateOf(ingest(name))} /s`} more={say.ever(count(d.ingest_rate))} />
              <Stat label={words.partitions} value={count(d.partitions.length)} />
              <Stat label={words.groups} value={count(d.consumer_groups.length)} />
              <Stat label={say.worstLag} value={count(worst)} tone={worst > 0 ? 'warn' : ''} />
            </div>
            <Panel label={words.activity}>
              <Boundary>
                <ActivityTape ns={ns} detail={d} />
              </Boundary>
            </Panel>
          </>
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
                  ['messages', words.messages],
                  ['partitions', say.partitionsTab(count(s?.partitions.length))],
                  ['groups', say.groupsTab(count(s?.consumer_groups.length))],
                ] as const
              }
              change={t => view({ tab: t === 'messages' ? '' : t, msg: '', group: '' })}
            />
          </div>
          {tab === 'messages' && <Messages name={name} partitions={s?.partitions.length ?? 0} />}
          {tab === 'partitions' && (
            <Panel fill flush label={words.partitions}>
              <Query q={q}>{d => <Partitions detail={d} />}</Query>
            </Panel>
          )}
          {tab === 'groups' && <Groups name={name} q={q} />}
          <ByCommand
            what={say.byCommand}
            commands={[
              floe(['stream', 'trim'], { ...inNamespace(ns), 'max-len': '10000' }, [name]),
              floe(['stream', 'delete'], { ...inNamespace(ns), force: true }, [name]),
            ]}
          />
        </>
      )}
      {form === 'append' && <Append ns={ns} stream={name} close={() => setForm('')} />}
      {form === 'retention' && state && <Retention ns={ns} stream={name} now={state.retention} close={() => setForm('')} />}
    </div>
  )
}

/** The time that the tape shows: what is asked for, else from the first record on, at least a minute. */
function tapeRange(d: Detail, range: string, now: number) {
  if (range) return parseRange(range, now)
  const firsts = d.partitions.map(p => millisOf(p.first_id)).filter(t => t > 0)
  const lasts = d.partitions.map(p => millisOf(p.last_id))
  const last = Math.max(...lasts, 0)
  if (firsts.length === 0 || last === 0) return { from: now - 3_600_000, to: now, relative: true }
  const from = Math.min(...firsts)
  const to = Math.max(last + 1000, from + 60_000)
  return { from, to: now - to < (to - from) / 4 ? Math.max(to, now) : to, relative: true }
}

/** As many rows as can be told apart; each is a read of its own. */
const mostRows = 16

function ActivityTape({ ns, detail: d }: { ns: string; detail: Detail }) {
  const { query } = useRoute()
  const unit = query['unit'] === 'bytes' ? 'bytes' : 'records'
  const partition = query['p'] ?? ''
  const range = query['range'] ?? ''
  const rows = query['rows'] === '1' && partition === '' ? d.partitions.slice(0, mostRows) : []
  // Whole steps, so that buckets stay what they are from one read to the next.
  const wanted = tapeRange(d, range, serverNow())
  const step = niceStep((wanted.to - wanted.from) / buckets)
  const from = Math.floor(wanted.from / step) * step
  const n = Math.max(1, Math.min(buckets + 1, Math.ceil((wanted.to - from) / step)))
  // Beside a group that is open the tape is read less often, and rows the less often the more they are: together they would ask for too much.
  const every = Math.max(query['tab'] === 'groups' ? 5000 : 2000, 1000 * rows.length)
  const bounds = { ns, stream: d.name, from, step, n, range, every, unit } as const
  return (
    <>
      <div class="row wrap" style={{ marginBottom: '4px' }}>
        <Segmented
          label={words.show}
          value={unit}
          options={
            [
              ['records', words.records],
              ['bytes', words.bytes],
            ] as const
          }
          change={u => view({ unit: u === 'bytes' ? 'bytes' : '' })}
        />
        <Segmented
          label={words.range}
          value={range}
          options={
            [
              ['', words.all],
              ['15m', '15m'],
              ['1h', '1h'],
              ['6h', '6h'],
              ['1d', '1d'],
              ['7d', '7d'],
            ] as const
          }
          change={r => view({ range: r })}
        />
        {d.partitions.length > 1 && (
          <>
            <label class="row">
              <span class="dim">{words.partition}</span>
              <select class="select" value={partition} onChange={e => view({ p: e.currentTarget.value })}>
                <option value="">{words.any}</option>
                {d.partitions.map(p => (
                  <option key={p.id} value={String(p.id)}>
                    {p.id}
                  </option>
                ))}
              </select>
            </label>
            {partition === '' && (
              <label class="check">
                <input type="checkbox" checked={rows.length > 0} onChange={e => view({ rows: e.currentTarget.checked ? '1' : '' })} /> {say.byPartition}
              </label>
            )}
          </>
        )}
      </div>
      {rows.length === 0 ? (
        <PartTape detail={d} bounds={bounds} partition={partition} />
      ) : (
        rows.map(p => <PartTape key={p.id} detail={d} bounds={bounds} partition={String(p.id)} row={String(p.id)} />)
      )}
      {rows.length > 0 && d.partitions.length > mostRows && <p class="dim">{say.firstPartitions(mostRows)}</p>}
    </>
  )
}

interface Bounds {
  ns: string
  stream: string
  from: number
  step: number
  n: number
  range: string
  every: number
  unit: 'records' | 'bytes'
}

/** The tape of a partition, or of all of them. */
function PartTape({ detail: d, bounds: b, partition, row }: { detail: Detail; bounds: Bounds; partition: string; row?: string }) {
  const { query } = useRoute()
  const args = { name: b.stream, namespace: b.ns, from: b.from, to: b.from + b.n * b.step, buckets: b.n, partition }
  const q = useRead('GET /api/v1/console/streams/:name/activity', args, b.every, { moving: JSON.stringify([b.ns, b.stream, b.range, partition]) })
  const selected = query['from'] && query['to'] ? { from: millisOf(query['from']), to: millisOf(query['to']) } : null
  const cursors: Cursor[] = d.consumer_groups
    .map(g => {
      const places = Object.entries(g.last_delivered).filter(([p]) => partition === '' || p === partition)
      const at = places.map(([, id]) => millisOf(id)).filter(t => t > 0)
      return { name: g.name, at: at.length > 0 ? Math.min(...at) : 0 }
    })
    .filter(c => c.at > 0)
  const draw = (a: Pick<Activity, 'from' | 'step_ms' | 'records' | 'bytes'>) => (
    <Tape
      label={row === undefined ? say.activityLabel : say.activityOf(row)}
      from={a.from}
      step={a.step_ms}
      values={b.unit === 'records' ? a.records : a.bytes}
      unit={b.unit}
      cursors={cursors}
      selected={selected}
      select={r => view({ from: r ? `${r.from}-0` : '', to: r ? `${r.to}-0` : '', tab: '' })}
      {...(row === undefined ? {} : { row })}
    />
  )
  return (
    <Query q={q} missing={<LoadedTape bounds={b} partition={partition} draw={draw} />}>
      {(a: Activity) => draw(a)}
    </Query>
  )
}

/** A node that does not count records by time: the tape is of those that are loaded, and says so. */
function LoadedTape({ bounds: b, partition, draw }: { bounds: Bounds; partition: string; draw: (a: Activity) => ComponentChildren }) {
  const q = useRead(messagesRoute, lastMessages(b.stream, b.ns, partition), 2000)
  return (
    <Query q={q}>
      {all => (
        <>
          <p class="dim">{say.loadedOnly(all.length)}</p>
          {draw(inBuckets(all, b))}
        </>
      )}
    </Query>
  )
}

/** What came when, of these records. */
export function inBuckets(all: readonly { id_ms: number; size: number }[], b: { from: number; step: number; n: number }): Activity {
  const records = new Array<number>(b.n).fill(0)
  const bytes = new Array<number>(b.n).fill(0)
  for (const m of all) {
    const at = Math.floor((m.id_ms - b.from) / b.step)
    if (at < 0 || at >= b.n) continue
    records[at]! += 1
    bytes[at]! += m.size
  }
  return { from: b.from, to: b.from + b.n * b.step, step_ms: b.step, records, bytes }
}

function Partitions({ detail: d }: { detail: Detail }) {
  return (
    <Table label={say.partitionsLabel} heads={[words.partition, `#${words.records}`, `#${words.bytes}`, words.first, words.last, words.leader]}>
      {d.partitions.map(p => (
        <tr key={p.id}>
          <td>
            <a href={link('streams', [d.name], { p: String(p.id) })}>{p.id}</a>
          </td>
          <td class="num">{count(p.records)}</td>
          <td class="num">{bytes(p.bytes)}</td>
          <td class="nowrap">{millisOf(p.first_id) > 0 ? <Moment at={millisOf(p.first_id)} /> : '–'}</td>
          <td class="nowrap">{millisOf(p.last_id) > 0 ? <Moment at={millisOf(p.last_id)} /> : '–'}</td>
          <td>{p.leader ? say.node(p.leader) : <span class="crit">{words.none}</span>}</td>
        </tr>
      ))}
    </Table>
  )
}
