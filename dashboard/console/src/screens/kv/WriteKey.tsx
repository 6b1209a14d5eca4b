import { useState } from 'preact/hooks'
import { call } from '../../api/client'
import { useRead, useWrite } from '../../api/hooks'
import { link } from '../../lib/router'
import { curl, floe, inNamespace } from '../../lib/snippets'
import { Dialog } from '../../ui/Dialog'
import { Field, Segmented } from '../../ui/Field'
import { Snippet } from '../../ui/Snippet'
import { toast } from '../../ui/toasts'
import { strings } from '../../strings'
import { kv as say } from '../../strings/kv'
import type { KeyDetail } from './KeyInspector'

const words = strings.words

type Expiry = 'keep' | 'set' | 'none'

/** Writes a key: a new one, or another value of one that is open. An edit holds for the version that was seen only. */
export function WriteKey({ ns, prefix, detail, close }: { ns: string; prefix: string; detail?: KeyDetail; close: () => void }) {
  const [key, setKey] = useState(detail?.key ?? prefix)
  const [value, setValue] = useState(detail?.value ?? '')
  const [base, setBase] = useState(detail?.version ?? 0)
  const [nx, setNX] = useState(true)
  const [expiry, setExpiry] = useState<Expiry>(detail && detail.ttl_ms !== null ? 'keep' : 'none')
  const [seconds, setSeconds] = useState('3600')
  const [theirs, setTheirs] = useState<KeyDetail | null>(null)
  const ttl = expiry === 'keep' ? Math.max(1, Math.ceil((detail?.ttl_ms ?? 0) / 1000)) : expiry === 'set' ? Number(seconds) : 0
  const badTTL = expiry === 'set' && !(Number.isInteger(ttl) && ttl > 0)
  const write = useWrite('PUT /api/v1/kv/namespaces/:namespace/keys/:key', ['/keys', '/namespaces'], () => {
    toast('ok', detail ? say.keyChanged(key) : say.keyWritten(key), { href: link('kv', [key], {}, ns), text: words.open })
    close()
  })
  // The command knows revisions only: the one of the version that the edit is of.
  const read = useRead('POST /api/v1/kv/namespaces/:namespace/get', { namespace: ns }, 0, {
    body: JSON.stringify({ keys: [detail?.key ?? ''] }),
    enabled: detail !== undefined,
  })
  const present = read.data?.data.items[0]
  const revision = present && present.version === base ? String(present.revision) : undefined
  const body: Record<string, unknown> = { value }
  if (ttl > 0) body['ttl_seconds'] = ttl
  if (!detail && nx) body['nx'] = true
  const text = JSON.stringify(body)
  const query: Record<string, string> = detail ? { if_version: String(base) } : {}
  const wrong = key === '' || key === '.' || key === '..' || badTTL
  // The dialog describes a conflict itself: it knows both versions.
  const problem = (() => {
    if (detail && write.error?.status === 404) return say.goneMeanwhile
    if (write.error?.status !== 409) return write.error?.message
    if (!detail) return say.exists(String(write.variables?.args['key']))
    return theirs ? '' : say.changedMeanwhile
  })()
  const submit = () => {
    if (wrong || write.isPending) return
    write.mutate(
      { args: { namespace: ns, key, ...query }, body: text },
      {
        onError: async e => {
          if (e.status === 409 && detail) {
            try {
              void read.refetch()
              setTheirs((await call('GET /api/v1/kv/namespaces/:namespace/keys/:key', { namespace: ns, key })).data)
            } catch {
              // It is gone by now; the conflict itself says enough.
            }
          }
        },
      },
    )
  }
  return (
    <Dialog
      title={detail ? say.editTitle(detail.key) : say.newTitle(ns)}
      close={close}
      submit={submit}
      footer={
        <>
          <button type="button" class="btn" onClick={close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={wrong || write.isPending}>
            {detail ? words.save : words.write}
          </button>
        </>
      }
    >
      {!detail && (
        <Field label={words.key} problem={key === '.' || key === '..' ? say.unwritable : undefined}>
          <input class="input mono" value={key} spellcheck={false} autocomplete="off" onInput={e => setKey(e.currentTarget.value)} />
        </Field>
      )}
      <Field label={words.value}>
        <textarea class="area" rows={8} value={value} spellcheck={false} onInput={e => setValue(e.currentTarget.value)} />
      </Field>
      <div class="row wrap">
        <span class="dim">{words.expiry}</span>
        <Segmented
          label={words.expiry}
          value={expiry}
          change={setExpiry}
          options={
            detail && detail.ttl_ms !== null
              ? [
                  ['keep', words.keep],
                  ['set', words.set],
                  ['none', words.noExpiry],
                ]
              : [
                  ['none', words.noExpiry],
                  ['set', words.set],
                ]
          }
        />
        {expiry === 'set' && (
          <label class="row">
            <input class="input num" size={8} inputMode="numeric" value={seconds} aria-label={words.seconds} onInput={e => setSeconds(e.currentTarget.value)} />{' '}
            {words.secondsUnit}
          </label>
        )}
        {badTTL && <span class="crit">{say.badExpiry}</span>}
      </div>
      {!detail && (
        <label class="check">
          <input type="checkbox" checked={nx} onChange={e => setNX(e.currentTarget.checked)} /> {say.onlyNew}
        </label>
      )}
      {problem && (
        <p class="crit" role="alert">
          {problem}
        </p>
      )}
      {theirs && (
        <div class="col">
          <p>{say.conflict(theirs.version, base)}</p>
          <Field label={say.theirs(theirs.version)}>
            <textarea class="area" rows={5} readOnly value={theirs.value} />
          </Field>
          <div class="row wrap">
            <button
              type="button"
              class="btn"
              onClick={() => {
                setBase(theirs.version)
                setTheirs(null)
                write.reset()
              }}
            >
              {say.keepMine(theirs.version)}
            </button>
            <button
              type="button"
              class="btn"
              onClick={() => {
                setValue(theirs.value)
                setBase(theirs.version)
                setTheirs(null)
                write.reset()
              }}
            >
              {say.takeTheirs}
            </button>
          </div>
        </div>
      )}
      <Snippet
        command={floe(
          ['kv', 'set'],
          { ...inNamespace(ns), ttl: ttl > 0 && !badTTL ? `${ttl}s` : undefined, 'if-absent': !detail && nx ? true : undefined, 'if-revision': revision },
          [key || 'KEY', value],
        )}
        call={curl('PUT', `/kv/namespaces/${encodeURIComponent(ns)}/keys/${encodeURIComponent(key || 'KEY')}`, query, text)}
      />
    </Dialog>
  )
}
