import { useState } from 'preact/hooks'
import { call, serverNow } from '../../api/client'
import { useRead, useWrite } from '../../api/hooks'
import { useReadOnly } from '../../api/me'
import type { Routes } from '../../api/routes'
import { bytes, count } from '../../lib/format'
import { useKeys } from '../../lib/keys'
import { useRoute, view } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { diffLines } from '../../lib/diff'
import { Confirm } from '../../ui/Dialog'
import { Tabs } from '../../ui/Field'
import { Inspector } from '../../ui/Inspector'
import { Empty, Query } from '../../ui/Panel'
import { Payload } from '../../ui/Payload'
import { Snippet } from '../../ui/Snippet'
import { Left, Moment, Ago } from '../../ui/Time'
import { Table } from '../../ui/Table'
import { toast } from '../../ui/toasts'
import { WriteKey } from './WriteKey'

export type KeyDetail = Routes['GET /api/v1/kv/namespaces/:namespace/keys/:key']

const keyRoute = 'GET /api/v1/kv/namespaces/:namespace/keys/:key'
/** Paths can not hold these: browsers take them for steps in the path. */
const unopenable = (key: string) => key === '.' || key === '..'

export function KeyInspector({ ns, name, close }: { ns: string; name: string; close: () => void }) {
  if (unopenable(name)) {
    return (
      <Inspector title={name} close={close}>
        <Empty title="The path of a URL can not hold this key.">
          <Snippet command={floe(['kv', 'get'], inNamespace(ns), [name])} />
        </Empty>
      </Inspector>
    )
  }
  return <Open ns={ns} name={name} close={close} />
}

function Open({ ns, name, close }: { ns: string; name: string; close: () => void }) {
  const { query } = useRoute()
  const tab = query['tab'] === 'history' ? 'history' : 'value'
  const args = { namespace: ns, key: name }
  const q = useRead(keyRoute, args, 5000)
  const [editing, setEditing] = useState(false)
  const [deleting, setDeleting] = useState(false)
  const readOnly = useReadOnly()
  const remove = useWrite('DELETE /api/v1/kv/namespaces/:namespace/keys/:key', ['/keys', '/namespaces'], () => {
    toast('ok', `Key ${name} is deleted.`)
    close()
  })
  const d = q.data?.data
  useKeys(readOnly || !d ? {} : { e: () => setEditing(true), Delete: () => setDeleting(true) })
  const path = `/kv/namespaces/${encodeURIComponent(ns)}/keys/${encodeURIComponent(name)}`
  const lossy = q.data?.lossy ?? false
  return (
    <Inspector
      title={name}
      close={close}
      tools={
        <>
          <button
            class="btn"
            disabled={readOnly !== '' || !d || lossy}
            title={readOnly || (lossy ? 'Bytes that are no UTF-8 can not be edited as text' : 'e')}
            onClick={() => setEditing(true)}
          >
            Edit
          </button>
          <button class="btn danger" disabled={readOnly !== '' || !d} title={readOnly || 'Del'} onClick={() => setDeleting(true)}>
            Delete
          </button>
        </>
      }
    >
      <Tabs
        label="Parts"
        value={tab}
        options={
          [
            ['value', 'Value'],
            ['history', 'History'],
          ] as const
        }
        change={t => view({ tab: t === 'value' ? '' : t, v: '' })}
      />
      {tab === 'value' ? (
        <Query q={q} missing={<Missing ns={ns} name={name} />}>
          {(d, answer) => (
            <>
              {isCounter(d.value) && <div class="counter">{counterText(d.value)}</div>}
              <Payload
                text={d.value}
                size={d.size}
                lossy={answer.lossy}
                label="the value"
                file={name.replaceAll('/', '_')}
                base64={async () => (await call(keyRoute, { ...args, encoding: 'base64' })).data.value}
              />
              <dl class="facts">
                <dt>Versions</dt>
                <dd data-test="version">{count(d.version)}</dd>
                <dt>Size</dt>
                <dd>{bytes(d.size)}</dd>
                <dt>Updated</dt>
                <dd>
                  <Moment at={d.updated_at} />
                </dd>
                <dt>Expires</dt>
                <dd data-test="ttl">{d.ttl_ms === null ? 'never' : <Left until={answer.at - Date.now() + serverNow() + d.ttl_ms} />}</dd>
              </dl>
              <Snippet command={floe(['kv', 'get'], inNamespace(ns), [name])} call={curl('GET', path)} />
            </>
          )}
        </Query>
      ) : (
        <History ns={ns} name={name} current={d} />
      )}
      {editing && d && <WriteKey ns={ns} prefix="" detail={d} close={() => setEditing(false)} />}
      {deleting && (
        <Confirm
          title={`Delete the key ${name}?`}
          action="Delete"
          pending={remove.isPending}
          error={remove.error?.message}
          close={() => setDeleting(false)}
          act={() => remove.mutate({ args })}
        >
          <p>
            The key <code>{name}</code> of the namespace <code>{ns}</code> is deleted with its value of {bytes(d?.size ?? 0)}.
          </p>
          <Snippet command={floe(['kv', 'delete'], inNamespace(ns), [name])} call={curl('DELETE', path)} />
        </Confirm>
      )}
    </Inspector>
  )
}

const isCounter = (v: string) => /^-?\d{1,19}$/.test(v)
const counterText = (v: string) => v.replace(/\B(?=(\d{3})+$)/g, ',')

function Missing({ ns, name }: { ns: string; name: string }) {
  return (
    <Empty title={`There is no key ${name}.`}>
      <Snippet command={floe(['kv', 'set'], inNamespace(ns), [name, 'value'])} />
    </Empty>
  )
}

/** The versions that are kept, the value of one, and what differs from the present one. */
function History({ ns, name, current }: { ns: string; name: string; current: KeyDetail | undefined }) {
  const { query } = useRoute()
  const q = useRead('GET /api/v1/kv/namespaces/:namespace/keys/:key/history', { namespace: ns, key: name }, 5000)
  const open = Number(query['v'] ?? 0)
  return (
    <Query q={q} missing={<Missing ns={ns} name={name} />}>
      {h => (
        <>
          <Table label="Versions" heads={['Version', 'Time', '#Term', '#Size', 'What']} boxed test="history">
            {h.versions.map(v => (
              <tr key={v.version}>
                <td>
                  <button
                    class="btn quiet"
                    aria-pressed={v.version === open}
                    disabled={v.tombstone}
                    onClick={() => view({ v: v.version === open ? '' : String(v.version) })}
                  >
                    {count(v.version)}
                  </button>
                </td>
                <td class="nowrap">
                  <Ago at={v.timestamp_ms} />
                </td>
                <td class="num">{count(v.term)}</td>
                <td class="num">{v.tombstone ? '' : bytes(v.size)}</td>
                <td>{v.tombstone ? <span class="dim">deleted</span> : 'written'}</td>
              </tr>
            ))}
          </Table>
          <p class="dim">
            {h.versions.length < (current?.version ?? 0) ? `Of ${count(current!.version)} versions the last ${h.versions.length} are kept.` : ''}
          </p>
          {open > 0 && <VersionValue ns={ns} name={name} version={open} current={current} />}
        </>
      )}
    </Query>
  )
}

function VersionValue({ ns, name, version, current }: { ns: string; name: string; version: number; current: KeyDetail | undefined }) {
  const args = { namespace: ns, key: name, version }
  const q = useRead(keyRoute, args, 0)
  return (
    <Query q={q}>
      {(d, answer) => (
        <>
          <h3>Version {count(version)}</h3>
          <Payload
            text={d.value}
            size={d.size}
            lossy={answer.lossy}
            label={`version ${version}`}
            base64={async () => (await call(keyRoute, { ...args, encoding: 'base64' })).data.value}
          />
          {current && !answer.lossy && current.value !== d.value && <Diff from={d.value} to={current.value} />}
          {current?.value === d.value && <p class="dim">The present value is the same.</p>}
        </>
      )}
    </Query>
  )
}

function Diff({ from, to }: { from: string; to: string }) {
  const lines = diffLines(from, to)
  if (!lines) return <p class="dim">These values are too long to compare line by line.</p>
  return (
    <div class="payload">
      <div class="payload-tools dim">from this version to the present value</div>
      <pre class="lines wrap" tabIndex={0} aria-label="Differences">
        {lines.map((l, i) => (
          <div key={i} class={`line ${l.sign === '+' ? 'ok' : l.sign === '-' ? 'crit' : ''}`}>
            {l.sign} {l.text}
          </div>
        ))}
      </pre>
    </div>
  )
}
