import './Palette.css'
import { keepPreviousData, useQuery } from '@tanstack/preact-query'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { call } from '../api/client'
import { hold } from '../api/hooks'
import { go, link, namespaceOf, useRoute } from '../lib/router'
import { strings } from '../strings'
import { screens } from './Shell'

const say = strings.palette

interface Target {
  what: string
  name: string
  href: string
  id?: string // by which it can be found too
}

/** Everything of a namespace that has a name, as far as one read each tells. */
async function names(ns: string, signal: AbortSignal): Promise<Target[]> {
  const opts = { signal }
  const of = async <T,>(read: Promise<{ data: T[] }>, what: string, name: (t: T) => string, screen: string, id = name) => {
    try {
      return (await read).data.map(t => ({ what, name: name(t), href: link(screen, [id(t)], {}, ns), id: id(t) }))
    } catch {
      return []
    }
  }
  const all = await Promise.all([
    of(call('GET /api/v1/streams', { namespace: ns }, opts), say.kinds.stream, s => s.name, 'streams'),
    of(call('GET /api/v1/queues', { namespace: ns }, opts), say.kinds.queue, s => s.name, 'queues'),
    of(call('GET /api/v1/timeseries', { namespace: ns }, opts), say.kinds.measurement, s => s.name, 'ts'),
    of(call('GET /api/v1/actions', { namespace: ns }, opts), say.kinds.action, s => s.name, 'actions'),
    of(call('GET /api/v1/workflow/definitions', { namespace: ns }, opts), say.kinds.workflow, s => s.name, 'workflows'),
    of(call('GET /api/v1/workers', { namespace: ns }, opts), say.kinds.worker, s => s.worker_id, 'workers'),
    of(
      call('GET /api/v1/processing/jobs', { namespace: ns }, opts),
      say.kinds.job,
      s => s.name,
      'processing',
      s => s.job_id,
    ),
  ])
  return all.flat()
}

/** What a pasted or typed id may be, though nothing with that name was listed. */
function guesses(text: string, ns: string): Target[] {
  if (text === '') return []
  const found: Target[] = []
  if (/^wfr-/.test(text)) found.push({ what: say.kinds.run, name: text, href: link('runs', [text], {}, ns) })
  found.push(
    { what: say.kinds.key, name: text, href: link('kv', [text], {}, ns) },
    { what: say.kinds.prefix, name: text, href: link('kv', [], { prefix: text }, ns) },
  )
  if (!/^wfr-/.test(text)) found.push({ what: say.kinds.run, name: text, href: link('runs', [text], {}, ns) })
  return found
}

const most = 40
const mostKeys = 10

export function Palette({ close }: { close: () => void }) {
  const ns = namespaceOf(useRoute())
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  const q = useQuery({ queryKey: ['palette', ns], queryFn: ({ signal }) => names(ns, signal), staleTime: 10_000 })
  const spaces = useQuery({
    queryKey: ['palette namespaces'],
    queryFn: async ({ signal }) => (await call('GET /api/v1/namespaces', {}, { signal })).data,
    staleTime: 10_000,
  })
  const typed = text.trim()
  const keys = useQuery({
    queryKey: ['palette keys', ns, typed],
    queryFn: async ({ signal }) =>
      (await call('GET /api/v1/kv/namespaces/:namespace/keys', { namespace: ns, prefix: typed, limit: mostKeys }, { signal })).data.keys,
    enabled: typed !== '',
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  })
  useEffect(() => {
    const before = document.activeElement
    ref.current!.showModal()
    const free = hold()
    return () => {
      free()
      ref.current?.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  const everything: Target[] = [
    ...screens.map(s => ({ what: say.kinds.screen, name: s.title, href: link(s.name, [], {}, ns) })),
    { what: say.kinds.screen, name: 'FloQL', href: link('floql', [], {}, ns) },
    { what: say.kinds.screen, name: strings.settings.title, href: '#/settings' },
    { what: say.kinds.screen, name: strings.shell.about, href: '#/about' },
    ...(spaces.data ?? []).map(n => ({ what: say.kinds.namespace, name: n.name, href: link('overview', [], {}, n.name) })),
    ...(q.data ?? []),
  ]
  const sought = text.trim().toLowerCase()
  const matching = everything
    .map(t => ({ t, at: Math.max(t.name.toLowerCase().indexOf(sought), t.id?.toLowerCase() === sought ? 0 : -1) }))
    .filter(m => m.at >= 0)
    .sort((a, b) => Math.min(a.at, 1) - Math.min(b.at, 1))
    .map(m => m.t)
  const listed = typed === '' ? [] : (keys.data ?? []).filter(k => k.key.startsWith(typed) && k.key !== typed)
  const found = [
    ...matching.slice(0, most),
    ...listed.map(k => ({ what: say.kinds.key, name: k.key, href: link('kv', [k.key], {}, ns) })),
    ...guesses(typed, ns),
  ]
  const current = Math.min(at, found.length - 1)
  const open = (t: Target | undefined) => {
    if (!t) return
    close()
    go(t.href)
  }
  return (
    <dialog
      ref={ref}
      class="palette"
      aria-label={say.title}
      onCancel={e => {
        e.preventDefault()
        close()
      }}
      onClick={e => e.target === ref.current && close()}
    >
      <input
        class="input"
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={found.length > 0 ? `${id}-${current}` : undefined}
        aria-label={say.label}
        placeholder={say.hint}
        value={text}
        autofocus
        spellcheck={false}
        onInput={e => {
          setText(e.currentTarget.value)
          setAt(0)
        }}
        onKeyDown={e => {
          if (e.key === 'ArrowDown') setAt(Math.min(current + 1, found.length - 1))
          else if (e.key === 'ArrowUp') setAt(Math.max(current - 1, 0))
          else if (e.key === 'Enter') open(found[current])
          else return
          e.preventDefault()
          requestAnimationFrame(() => document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: 'nearest' }))
        }}
      />
      <ul role="listbox" id={id} aria-label={say.found}>
        {found.map((t, i) => (
          <li key={t.what + t.name + i} id={`${id}-${i}`} role="option" aria-selected={i === current} onClick={() => open(t)} onMouseMove={() => setAt(i)}>
            <span class="dim">{t.what}</span>
            <span class="clip">{t.name}</span>
          </li>
        ))}
      </ul>
    </dialog>
  )
}
