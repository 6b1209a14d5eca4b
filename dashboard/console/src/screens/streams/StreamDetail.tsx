import { useState } from 'preact/hooks'
import { serverNow } from '../../api/client'
import { useRead } from '../../api/hooks'
import type { Activity, Routes } from '../../api/routes'
import { bytes, count, kept } from '../../lib/format'
import { rateOf, useMeters } from '../../lib/meters'
import { niceStep, parseRange } from '../../lib/range'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { Segmented, Tabs } from '../../ui/Field'
import { Boundary, Empty, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Tape, type Cursor } from '../../ui/Tape'
import { Moment } from '../../ui/Time'
import { Table } from '../../ui/Table'
import { Stat } from '../overview/Overview'
import { Groups } from './Groups'
import { Messages } from './Messages'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'

const words = strings.words

export type Detail = Routes['GET /api/v1/streams/:name']

const buckets = 120
export const millisOf = (id: string) => Number(id.split('-')[0])

export function StreamDetail({ name }: { name: string }) {
  const { ns, query } = useRoute()
  const tab = (['partitions', 'groups'].includes(query['tab'] ?? '') ? query['tab'] : 'messages') as 'messages' | 'partitions' | 'groups'
  const q = useRead('GET /api/v1/streams/:name', { name, namespace: ns }, 2000)
  const s = q.data?.data
  const ingest = useMeters(
    s ? [s] : [],
    q.data?.at,
    d => d.name,
    d => d.ingest_rate,
  )
  const worst = s ? Math.max(0, ...s.consumer_groups.map(g => g.lag)) : 0
  return (
    <div class="page fixed">
      <div class="head">
        <a class="crumb" href={link('streams')}>
          {words.streams}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{name}</h1>
        {s && <span class="dim">{strings.keeps(kept(s.retention))}</span>}
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

function ActivityTape({ ns, detail: d }: { ns: string; detail: Detail }) {
  const { query } = useRoute()
  const [unit, setUnit] = useState<'records' | 'bytes'>('records')
  const partition = query['p'] ?? ''
  const range = query['range'] ?? ''
  // Whole steps, so that buckets stay what they are from one read to the next.
  const wanted = tapeRange(d, range, serverNow())
  const step = niceStep((wanted.to - wanted.from) / buckets)
  const from = Math.floor(wanted.from / step) * step
  const n = Math.max(1, Math.min(buckets + 1, Math.ceil((wanted.to - from) / step)))
  const args = { name: d.name, namespace: ns, from, to: from + n * step, buckets: n, partition }
  // Beside a group that is open the tape is read less often: together they would ask for too much.
  const q = useRead('GET /api/v1/console/streams/:name/activity', args, query['tab'] === 'groups' ? 5000 : 2000, {
    moving: JSON.stringify([ns, d.name, range, partition]),
  })
  const selected = query['from'] && query['to'] ? { from: millisOf(query['from']), to: millisOf(query['to']) } : null
  const cursors: Cursor[] = d.consumer_groups
    .map(g => {
      const places = Object.entries(g.last_delivered).filter(([p]) => partition === '' || p === partition)
      const at = places.map(([, id]) => millisOf(id)).filter(t => t > 0)
      return { name: g.name, at: at.length > 0 ? Math.min(...at) : 0 }
    })
    .filter(c => c.at > 0)
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
          change={setUnit}
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
        )}
      </div>
      <Query q={q} missing={<p class="dim">{say.noActivity}</p>}>
        {(a: Activity) => (
          <Tape
            label={say.activityLabel}
            from={a.from}
            step={a.step_ms}
            values={unit === 'records' ? a.records : a.bytes}
            unit={unit}
            cursors={cursors}
            selected={selected}
            select={r => view({ from: r ? `${r.from}-0` : '', to: r ? `${r.to}-0` : '', tab: '' })}
          />
        )}
      </Query>
    </>
  )
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
