import { useState } from 'preact/hooks'
import { useRead, useWrite } from '../../api/hooks'
import { useReadOnly } from '../../api/me'

import { useKeys } from '../../lib/keys'
import { go, link, useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { ByCommand } from '../../ui/ByCommand'
import { Confirm } from '../../ui/Dialog'
import { Field, Tabs } from '../../ui/Field'
import { InputDialog } from '../../ui/InputDialog'
import { Editor, Graph } from '../../ui/Lazy'
import { absent, Empty, Panel, Query } from '../../ui/Panel'
import { CopyButton, Snippet } from '../../ui/Snippet'
import { State } from '../../ui/State'
import { toast } from '../../ui/toasts'
import { Runs } from './Runs'
import { strings } from '../../strings'
import { workflows as say } from '../../strings/workflows'
import { Sentence } from '../../ui/Sentence'

const words = strings.words

/** The graph of a definition, as the node reads it. */
export function useGraph(kind: 'workflow' | 'processing', yaml: string | undefined) {
  return useRead('POST /api/v1/console/validate', { kind }, 0, { body: yaml ?? '', enabled: yaml !== undefined && yaml !== '' })
}

export function Definition({ name }: { name: string }) {
  const { ns, query } = useRoute()
  const tab = (['graph', 'definition'].includes(query['tab'] ?? '') ? query['tab'] : 'runs') as 'runs' | 'graph' | 'definition'
  const q = useRead('GET /api/v1/workflow/definitions/:name', { name, namespace: ns }, 5000)
  const d = q.data?.data
  const graph = useGraph('workflow', tab === 'graph' ? d?.definition_yaml : undefined)
  const readOnly = useReadOnly()
  const [asking, setAsking] = useState(false)
  const [starting, setStarting] = useState(false)
  const args = { name, namespace: ns }
  const enable = useWrite('PUT /api/v1/workflow/definitions/:name/enable', ['/workflow'], () => {
    toast('ok', say.isEnabled(name))
    setAsking(false)
  })
  const disable = useWrite('PUT /api/v1/workflow/definitions/:name/disable', ['/workflow'], () => {
    toast('ok', say.isDisabled(name))
    setAsking(false)
  })
  useKeys(readOnly || !d?.enabled ? {} : { n: () => setStarting(true) })
  const path = `/workflow/definitions/${encodeURIComponent(name)}`
  const verb = d?.enabled ? 'disable' : 'enable'
  const change = d?.enabled ? disable : enable
  const line = graph.data?.data.graph.nodes.find(n => n.id === query['node'])?.line
  return (
    <div class="page fixed">
      <div class="head">
        <a class="crumb" href={link('workflows')}>
          {words.workflows}
        </a>
        <span class="dim">/</span>
        <h1 tabIndex={-1}>{name}</h1>
        {d && (
          <>
            <span class="tag">{d.version}</span>
            <State state={d.enabled ? 'enabled' : 'disabled'} />
            <span class="dim">
              {strings.many.runs(d.run_count)}
              {d.has_schedule && <a href={link('schedules', [], { schedule: `workflow/${name}` })}>{say.hasSchedule}</a>}
              {d.has_trigger ? say.hasTrigger : ''}
            </span>
          </>
        )}
        <span class="row push">
          <button class="btn" disabled={readOnly !== '' || !d} title={readOnly} onClick={() => setAsking(true)}>
            {d?.enabled === false ? words.enable : words.disable}
          </button>
          <button
            class="btn primary"
            disabled={readOnly !== '' || !d?.enabled}
            title={readOnly || (d?.enabled ? 'n' : say.disabled)}
            onClick={() => setStarting(true)}
          >
            {say.startARun}
          </button>
        </span>
      </div>
      {!absent(q) && (
        <Tabs
          label={words.parts}
          value={tab}
          options={
            [
              ['runs', words.runs],
              ['graph', words.graph],
              ['definition', words.definition],
            ] as const
          }
          change={t => view({ tab: t === 'runs' ? '' : t, node: '' })}
        />
      )}
      {tab === 'runs' && !absent(q) && <Runs ns={ns} workflow={name} />}
      {(tab !== 'runs' || absent(q)) && (
        <Query q={q} missing={<Empty title={say.missing(name, ns)} />}>
          {d => (
            <div class="col grow" style={{ overflow: 'auto' }}>
              {tab === 'graph' && (
                <Panel label={words.graph}>
                  <Query q={graph}>
                    {v => (
                      <Graph
                        label={say.graphOf(name)}
                        nodes={v.graph.nodes}
                        edges={v.graph.edges}
                        selected={query['node'] ?? ''}
                        select={id => view({ node: query['node'] === id ? '' : id })}
                      />
                    )}
                  </Query>
                </Panel>
              )}
              {(tab === 'definition' || line) && (
                <Panel title={words.definition} tools={<CopyButton text={d.definition_yaml} label={words.copyDefinition} />}>
                  <Editor value={d.definition_yaml} language="yaml" label={words.definition} {...(line ? { line } : {})} />
                </Panel>
              )}
            </div>
          )}
        </Query>
      )}
      {d && <ByCommand what={say.newVersionByCommand} commands={[floe(['workflow', 'create'], { ...inNamespace(ns), f: `${name}.yaml` })]} />}
      {asking && (
        <Confirm
          title={verb === 'enable' ? say.askEnable(name) : say.askDisable(name)}
          action={verb === 'enable' ? words.enable : words.disable}
          danger={false}
          pending={change.isPending}
          error={change.error?.message}
          close={() => setAsking(false)}
          act={() => change.mutate({ args })}
        >
          <p>
            <Sentence of={verb === 'enable' ? say.willStart : say.willRest} put={{ ns: <code>{ns}</code> }} />
          </p>
          <Snippet command={floe(['workflow', verb], inNamespace(ns), [name])} call={curl('PUT', `${path}/${verb}`, { namespace: ns })} />
        </Confirm>
      )}
      {starting && <Start ns={ns} name={name} version={d?.version ?? ''} close={() => setStarting(false)} />}
    </div>
  )
}

function Start({ ns, name, version, close }: { ns: string; name: string; version: string; close: () => void }) {
  const [input, setInput] = useState('{}')
  const [at, setAt] = useState('')
  const write = useWrite('POST /api/v1/workflow/runs', ['/workflow'], data => {
    toast('ok', say.isStarted(data.run_id))
    close()
    go(link('runs', [data.run_id], {}, ns))
  })
  return (
    <InputDialog
      title={say.startTitle(name)}
      action={words.startVerb}
      input={input}
      type={setInput}
      write={write}
      close={close}
      act={() => write.mutate({ args: { namespace: ns, workflow: name, version: at }, body: input })}
      command={floe(['workflow', 'start'], { ...inNamespace(ns), version: at }, [name, input])}
      call={curl('POST', '/workflow/runs', { namespace: ns, workflow: name, version: at }, input)}
    >
      <Field label={words.version} hint={say.byDefault(version)}>
        <input class="input mono" value={at} placeholder={version} onInput={e => setAt(e.currentTarget.value)} />
      </Field>
    </InputDialog>
  )
}
