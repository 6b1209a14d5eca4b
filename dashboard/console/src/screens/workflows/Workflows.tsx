import { useMemo } from 'preact/hooks'
import { useRead } from '../../api/hooks'
import type { Routes } from '../../api/routes'
import { count } from '../../lib/format'
import { link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { ByCommand } from '../../ui/ByCommand'
import { FilterBox, Tabs } from '../../ui/Field'
import { NoneIn } from '../../ui/NoneIn'
import { NoMatch, Panel, Query } from '../../ui/Panel'
import { Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { Count, VirtualRows, type Column } from '../../ui/VirtualRows'
import { Definition } from './Definition'
import { Runs } from './Runs'
import { strings } from '../../strings'
import { workflows as say } from '../../strings/workflows'

const words = strings.words

type Summary = Routes['GET /api/v1/workflow/definitions'][number]

export default function Workflows() {
  const { id } = useRoute()
  return id[0] === undefined ? <List /> : <Definition key={id[0]} name={id[0]} />
}

function List() {
  const { ns, query } = useRoute()
  const tab = query['tab'] === 'runs' ? 'runs' : 'definitions'
  return (
    <div class="page fixed">
      <div class="head">
        <h1 tabIndex={-1}>{words.workflows}</h1>
        <Tabs
          label={words.parts}
          value={tab}
          options={
            [
              ['definitions', words.definitions],
              ['runs', say.allRuns],
            ] as const
          }
          change={t => view({ tab: t === 'runs' ? 'runs' : '', status: '', filter: '' })}
        />
      </div>
      {tab === 'runs' ? <Runs ns={ns} workflow="" /> : <Definitions ns={ns} />}
      {tab !== 'runs' && <ByCommand what={say.createByCommand} commands={[floe(['workflow', 'create'], { ...inNamespace(ns), f: 'order.yaml' })]} />}
    </div>
  )
}

function Definitions({ ns }: { ns: string }) {
  const { query } = useRoute()
  const q = useRead('GET /api/v1/workflow/definitions', { namespace: ns }, 5000)
  const filter = query['filter'] ?? ''
  const all = q.data?.data ?? []
  const rows = useMemo(() => all.filter(d => d.name.includes(filter)), [all, filter])
  const columns: Column<Summary>[] = [
    { key: 'name', title: words.workflow, width: 'minmax(130px, 2fr)', cell: d => d.name, sort: d => d.name },
    { key: 'version', title: words.version, width: '70px', spare: 1, cell: d => <span class="mono">{d.version}</span> },
    { key: 'enabled', title: words.state, width: '100px', cell: d => <State state={d.enabled ? 'enabled' : 'disabled'} />, sort: d => (d.enabled ? 0 : 1) },
    { key: 'steps', title: words.steps, width: '60px', num: true, spare: 2, cell: d => count(d.step_count), sort: d => d.step_count },
    {
      key: 'starts',
      title: say.startedByTitle,
      spare: 3,
      width: 'minmax(110px, 1fr)',
      cell: d =>
        [d.has_schedule ? say.starters.schedule : '', d.has_trigger ? say.starters.trigger : ''].filter(Boolean).join(', ') || (
          <span class="dim">{words.calls}</span>
        ),
    },
    { key: 'ends', title: words.ends, width: 'minmax(140px, 2fr)', spare: 4, cell: d => d.terminals.join(', ') || <span class="dim">{words.builtIn}</span> },
  ]
  return (
    <Panel
      fill
      flush
      label={words.workflows}
      tools={
        <>
          <FilterBox value={filter} change={v => view({ filter: v })} placeholder={words.filterByName} />
          {q.data && <Count shown={rows.length} all={all.length} what={strings.many.workflows} />}
        </>
      }
    >
      <Query
        q={q}
        empty={d => d.length === 0}
        whenEmpty={
          <NoneIn ns={ns} title={say.empty(ns)}>
            <Snippet
              command={floe(['workflow', 'create'], { ...inNamespace(ns), f: 'order.yaml' })}
              call={curl('GET', '/workflow/definitions', { namespace: ns })}
            />
          </NoneIn>
        }
      >
        {() =>
          rows.length === 0 ? (
            <NoMatch filter={filter} clear={() => view({ filter: '' })} />
          ) : (
            <VirtualRows label={words.workflows} rows={rows} columns={columns} keyOf={d => d.name} sortable href={d => link('workflows', [d.name])} />
          )
        }
      </Query>
    </Panel>
  )
}
