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
import { strings } from '../../strings'
import { kv as say } from '../../strings/kv'
import { Sentence } from '../../ui/Sentence'

const words = strings.words

export type KeyDetail = Routes['GET /api/v1/kv/namespaces/:namespace/keys/:key']

const keyRoute = 'GET /api/v1/kv/namespaces/:namespace/keys/:key'
/** Paths cannot hold these: browsers treat them as path segments. */
const unopenable = (key: string) => key === '.' || key === '..'

export function KeyInspector({ ns, name, close }: { ns: string; name: string; close: () => void }) {
  if (unopenable(name)) {
    return (
      <Inspector title={name} close={close}>
        <Empty title={say.unopenable}>
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
    toast('ok', say.keyDeleted(name))
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
          <button class="btn" disabled={readOnly !== '' || !d || lossy} title={readOnly || (lossy ? say.notText : 'e')} onClick={() => setEditing(true)}>
            {words.edit}
          </button>
          <button class="btn danger" disabled={readOnly !== '' || !d} title={readOnly || 'Del'} onClick={() => setDeleting(true)}>
            {words.delete}
          </button>
        </>
      }
    >
      <Tabs
        label={words.parts}
        value={tab}
        options={
          [
            ['value', words.value],
            ['history', words.history],
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
                label={say.theValue}
                file={name.replaceAll('/', '_')}
                base64={async () => (await call(keyRoute, { ...args, encoding: 'base64' })).data.value}
              />
              <dl class="facts">
                <dt>{words.versions}</dt>
                <dd data-test="version">{count(d.version)}</dd>
                <dt>{words.size}</dt>
                <dd>{bytes(d.size)}</dd>
                <dt>{words.updated}</dt>
                <dd>
                  <Moment at={d.updated_at} />
                </dd>
                <dt>{words.expires}</dt>
                <dd data-test="ttl">{d.ttl_ms === null ? words.never : <Left until={answer.at - Date.now() + serverNow() + d.ttl_ms} />}</dd>
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
          title={say.askDelete(name)}
          action={words.delete}
          pending={remove.isPending}
          error={remove.error?.message}
          close={() => setDeleting(false)}
          act={() => remove.mutate({ args })}
        >
          <p>
            <Sentence of={say.willDelete} put={{ key: <code>{name}</code>, ns: <code>{ns}</code>, size: bytes(d?.size ?? 0) }} />
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
    <Empty title={say.missing(name)}>
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
          <Table label={words.versions} heads={[words.version, words.time, `#${words.term}`, `#${words.size}`, words.what]} boxed test="history">
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
                <td>{v.tombstone ? <span class="dim">{words.deleted}</span> : words.written}</td>
              </tr>
            ))}
          </Table>
          <p class="dim">{h.versions.length < (current?.version ?? 0) ? say.versionsKept(count(current!.version), h.versions.length) : ''}</p>
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
          <h3>{say.versionOf(version)}</h3>
          <Payload
            text={d.value}
            size={d.size}
            lossy={answer.lossy}
            label={strings.version(version)}
            base64={async () => (await call(keyRoute, { ...args, encoding: 'base64' })).data.value}
          />
          {current && !answer.lossy && current.value !== d.value && <Diff from={d.value} to={current.value} />}
          {current?.value === d.value && <p class="dim">{say.sameValue}</p>}
        </>
      )}
    </Query>
  )
}

function Diff({ from, to }: { from: string; to: string }) {
  const lines = diffLines(from, to)
  if (!lines) return <p class="dim">{say.tooLong}</p>
  return (
    <div class="payload">
      <div class="payload-tools dim">{say.diffTitle}</div>
      <pre class="lines wrap" tabIndex={0} aria-label={words.differences}>
        {lines.map((l, i) => (
          <div key={i} class={`line ${l.sign === '+' ? 'ok' : l.sign === '-' ? 'crit' : ''}`}>
            {l.sign} {l.text}
          </div>
        ))}
      </pre>
    </div>
  )
}
