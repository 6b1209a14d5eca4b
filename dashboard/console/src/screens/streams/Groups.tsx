import { useRead, type Read } from '../../api/hooks'
import { serverNow } from '../../api/client'
import { count, duration } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { floe, inNamespace } from '../../lib/snippets'
import { Inspector } from '../../ui/Inspector'
import { Empty, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { Bar, Table } from '../../ui/Table'
import { Ago, Left } from '../../ui/Time'
import { VirtualRows, type Column } from '../../ui/VirtualRows'
import type { Detail } from './StreamDetail'

type Group = Detail['consumer_groups'][number]

export function Groups({ name, q }: { name: string; q: Read<Detail> }) {
  const { ns, query } = useRoute()
  const open = query['group'] ?? ''
  const all = q.data?.data.consumer_groups ?? []
  const most = Math.max(1, ...all.map(g => g.lag))
  const columns: Column<Group>[] = [
    { key: 'name', title: 'Group', width: 'minmax(110px, 1fr)', cell: g => g.name, sort: g => g.name },
    { key: 'mode', title: 'Mode', width: '90px', spare: 2, cell: g => g.mode },
    { key: 'members', title: 'Members', width: '70px', num: true, spare: 1, cell: g => count(g.members), sort: g => g.members },
    { key: 'pending', title: 'Pending', width: '70px', num: true, cell: g => count(g.pending), sort: g => g.pending, hint: 'Delivered and not acknowledged' },
    {
      key: 'lag',
      title: 'Lag',
      width: '80px',
      num: true,
      cell: g => <span class={g.lag > 0 ? 'warn' : ''}>{count(g.lag)}</span>,
      sort: g => g.lag,
      hint: 'Records that were not delivered yet',
    },
    {
      key: 'bar',
      title: 'Lag, compared',
      spare: 3,
      width: 'minmax(80px, 1fr)',
      cell: g => <Bar part={g.lag / most} tone={g.lag > 0 ? 'warn' : ''} />,
    },
  ]
  return (
    <div class="split">
      <Panel fill flush label="Consumer groups">
        <Query
          q={q}
          empty={d => d.consumer_groups.length === 0}
          whenEmpty={
            <Empty title="No group consumes this stream yet.">
              <Snippet command={floe(['stream', 'group', 'create'], inNamespace(ns), [name, 'workers'])} />
            </Empty>
          }
        >
          {d => (
            <VirtualRows
              label="Consumer groups"
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
  return (
    <Inspector title={group} close={close}>
      <Query q={q} missing={<Empty title="There is no such group." />}>
        {g => (
          <>
            <dl class="facts">
              <dt>Mode</dt>
              <dd>{g.mode}</dd>
              <dt>Lag</dt>
              <dd class={g.lag > 0 ? 'warn' : ''} data-test="lag">
                {count(g.lag)}
              </dd>
              <dt>Pending</dt>
              <dd>{count(g.pending)}</dd>
              <dt>Ack timeout</dt>
              <dd>{duration(g.ack_timeout_ms)}</dd>
              <dt>Deliveries</dt>
              <dd>{g.max_deliver > 0 ? `at most ${count(g.max_deliver)}` : 'any number'}</dd>
            </dl>
            <h3>Cursors</h3>
            <Table label="Cursors" heads={['Partition', 'Delivered', 'Acknowledged', '#Lag']} boxed>
              {g.cursors.map(c => (
                <tr key={c.partition}>
                  <td>{c.partition}</td>
                  <td class="mono nowrap">{zero(c.last_delivered)}</td>
                  <td class="mono nowrap">{zero(c.acked)}</td>
                  <td class={c.lag > 0 ? 'num warn' : 'num'}>{count(c.lag)}</td>
                </tr>
              ))}
            </Table>
          </>
        )}
      </Query>
      <h3>Members</h3>
      <Query q={members} empty={d => d.length === 0} whenEmpty={<p class="dim">Nobody reads for this group.</p>}>
        {all => (
          <Table label="Members" heads={['Consumer', '#Pending', '#Seen']} boxed>
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
      <h3>Pending</h3>
      <Query q={pending} empty={d => d.length === 0} whenEmpty={<p class="dim">Everything that was delivered is acknowledged.</p>}>
        {(all, answer) => (
          <>
            <Table label="Pending messages" heads={['Message', 'Consumer', '#Deliveries', '#Deadline']} boxed>
              {all.map(m => (
                <tr key={`${m.id_ms}-${m.id_seq}`}>
                  <td class="mono">
                    <a href={link('streams', [stream], { msg: `${m.id_ms}-${m.id_seq}` })}>{`${m.id_ms}-${m.id_seq}`}</a>
                  </td>
                  <td class="mono">{m.consumer || <span class="dim">nobody</span>}</td>
                  <td class={m.deliveries > 1 ? 'num warn' : 'num'}>{count(m.deliveries)}</td>
                  <td class="num nowrap">{m.ack_deadline > serverNow() ? <Left until={m.ack_deadline} /> : <span class="warn">over</span>}</td>
                </tr>
              ))}
            </Table>
            {answer.next && <p class="dim">These are the first {count(all.length)}.</p>}
          </>
        )}
      </Query>
      <Snippet command={floe(['stream', 'group', 'pending'], inNamespace(ns), [stream, group])} />
    </Inspector>
  )
}
