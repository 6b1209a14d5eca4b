import { useState } from 'preact/hooks'
import { useRead, type Read } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import { serverNow } from '../../api/client'
import { count, duration } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { Inspector } from '../../ui/Inspector'
import { absent, Empty, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Bar, Table } from '../../ui/Table'
import { Ago, Left } from '../../ui/Time'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import { Seek } from './Seek'
import type { Detail } from './StreamDetail'
import { strings } from '../../strings'
import { streams as say } from '../../strings/streams'

const words = strings.words

type Group = Detail['consumer_groups'][number]

export function Groups({ name, q }: { name: string; q: Read<Detail> }) {
  const { ns, query } = useRoute()
  const open = query['group'] ?? ''
  const all = q.data?.data.consumer_groups ?? []
  const most = Math.max(1, ...all.map(g => g.lag))
  const columns: Column<Group>[] = [
    { key: 'name', title: words.group, width: 'minmax(110px, 1fr)', cell: g => g.name, sort: g => g.name },
    { key: 'mode', title: words.mode, width: '90px', spare: 2, cell: g => g.mode },
    { key: 'members', title: words.members, width: '70px', num: true, spare: 1, cell: g => count(g.members), sort: g => g.members },
    { key: 'pending', title: words.pending, width: '70px', num: true, cell: g => count(g.pending), sort: g => g.pending, hint: say.pendingHint },
    {
      key: 'lag',
      title: words.lag,
      width: '80px',
      num: true,
      cell: g => <span class={g.lag > 0 ? 'warn' : ''}>{count(g.lag)}</span>,
      sort: g => g.lag,
      hint: say.lagHint,
    },
    {
      key: 'bar',
      title: say.lagCompared,
      spare: 3,
      width: 'minmax(80px, 1fr)',
      cell: g => <Bar part={g.lag / most} tone={g.lag > 0 ? 'warn' : ''} />,
    },
  ]
  return (
    <div class="split">
      <Panel fill flush label={say.consumerGroups}>
        <Query
          q={q}
          empty={d => d.consumer_groups.length === 0}
          whenEmpty={
            <Empty title={say.noGroups}>
              <Snippet command={floe(['stream', 'group', 'create'], inNamespace(ns), [name, 'workers'])} />
            </Empty>
          }
        >
          {d => (
            <VirtualRows
              label={say.consumerGroups}
              rows={d.consumer_groups}
              columns={columns}
              keyOf={g => g.name}
              sortable
              selected={open || undefined}
              href={g => link('streams', [name], { tab: 'groups', group: g.name })}
              open={g => view({ group: g.name })}
            />
          )}
        </Query>
      </Panel>
      {open && <GroupInspector key={open} ns={ns} stream={name} group={open} close={() => view({ group: '' })} />}
    </div>
  )
}

const zero = (id: string) => (id === '0-0' ? '–' : id)

function GroupInspector({ ns, stream, group, close }: { ns: string; stream: string; group: string; close: () => void }) {
  const args = { name: stream, group, namespace: ns }
  const q = useRead('GET /api/v1/streams/:name/groups/:group', args, 2000)
  const pending = useRead('GET /api/v1/streams/:name/groups/:group/pending', { ...args, limit: 200 }, 2000)
  const members = useRead('GET /api/v1/streams/:name/groups/:group/members', args, 5000)
  const readOnly = useReadOnly()
  const [seeking, seek] = useState(false)
  return (
    <Inspector
      title={group}
      close={close}
      tools={
        <button class="btn" disabled={readOnly !== '' || !q.data} title={readOnly} onClick={() => seek(true)}>
          {say.seek}
        </button>
      }
    >
      <Query q={q} missing={<Empty title={say.noGroup} />}>
        {g => (
          <>
            <dl class="facts">
              <dt>{words.mode}</dt>
              <dd>{g.mode}</dd>
              <dt>{words.lag}</dt>
              <dd class={g.lag > 0 ? 'warn' : ''} data-test="lag">
                {count(g.lag)}
              </dd>
              <dt>{words.pending}</dt>
              <dd>{count(g.pending)}</dd>
              <dt>{say.ackTimeout}</dt>
              <dd>{duration(g.ack_timeout_ms)}</dd>
              <dt>{words.deliveries}</dt>
              <dd>{g.max_deliver > 0 ? say.atMost(count(g.max_deliver)) : say.anyNumber}</dd>
            </dl>
            <h3>{words.cursors}</h3>
            <Table label={words.cursors} heads={[words.partition, `#${words.lag}`, words.delivered, words.acknowledged]} boxed>
              {g.cursors.map(c => (
                <tr key={c.partition}>
                  <td>{c.partition}</td>
                  <td class={c.lag > 0 ? 'num warn' : 'num'}>{count(c.lag)}</td>
                  <td class="mono nowrap">{zero(c.last_delivered)}</td>
                  <td class="mono nowrap">{zero(c.acked)}</td>
                </tr>
              ))}
            </Table>
          </>
        )}
      </Query>
      {!absent(q) && (
        <>
          <h3>{words.members}</h3>
          <Query q={members} empty={d => d.length === 0} whenEmpty={<p class="dim">{say.noMembers}</p>}>
            {all => (
              <Table label={words.members} heads={[words.consumer, `#${words.pending}`, `#${words.seen}`]} boxed>
                {all.map(m => (
                  <tr key={m.consumer}>
                    <td class="mono">{m.consumer}</td>
                    <td class="num">{count(m.pending)}</td>
                    <td class="num nowrap">
                      <Ago at={m.last_seen} />
                    </td>
                  </tr>
                ))}
              </Table>
            )}
          </Query>
          <h3>{words.pending}</h3>
          <Query q={pending} empty={d => d.length === 0} whenEmpty={<p class="dim">{say.nonePending}</p>}>
            {(all, answer) => (
              <>
                <Table label={say.pendingMessages} heads={[words.message, words.consumer, `#${words.deliveries}`, `#${words.deadline}`]} boxed>
                  {all.map(m => (
                    <tr key={`${m.id_ms}-${m.id_seq}`}>
                      <td class="mono">
                        <a href={link('streams', [stream], { msg: `${m.id_ms}-${m.id_seq}` })}>{`${m.id_ms}-${m.id_seq}`}</a>
                      </td>
                      <td class="mono">{m.consumer || <span class="dim">{words.noConsumer}</span>}</td>
                      <td class={m.deliveries > 1 ? 'num warn' : 'num'}>{count(m.deliveries)}</td>
                      <td class="num nowrap">{m.ack_deadline > serverNow() ? <Left until={m.ack_deadline} /> : <span class="warn">{words.over}</span>}</td>
                    </tr>
                  ))}
                </Table>
                {answer.next && <p class="dim">{say.firstPending(all.length)}</p>}
              </>
            )}
          </Query>
        </>
      )}
      <Snippet command={floe(['stream', 'group', 'pending'], inNamespace(ns), [stream, group])} />
      {seeking && q.data && <Seek ns={ns} stream={stream} group={group} partitions={q.data.data.cursors.map(c => c.partition)} close={() => seek(false)} />}
    </Inspector>
  )
}
