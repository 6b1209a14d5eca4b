import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { useWrite, type WriteArgs } from '../api/hooks'
import { useReadOnly } from '../api/me'
import type { Routes } from '../api/routes'
import { Confirm } from './Dialog'
import { Snippet } from './Snippet'
import { toast } from './toasts'

/** A button that asks, and then makes a write. off says why it is not possible now. */
export function Act<K extends keyof Routes & string>(p: {
  label: string
  title: string
  children: ComponentChildren
  route: K
  write: WriteArgs
  touched: readonly string[]
  done: (data: Routes[K]) => string
  command: string
  call: string
  danger?: boolean
  off?: string
}) {
  const [asking, ask] = useState(false)
  const readOnly = useReadOnly()
  const off = readOnly || (p.off ?? '')
  const write = useWrite(p.route, p.touched, data => {
    toast('ok', p.done(data))
    ask(false)
  })
  return (
    <>
      <button class={p.danger ? 'btn danger' : 'btn'} disabled={off !== ''} title={off} onClick={() => ask(true)}>
        {p.label}
      </button>
      {asking && (
        <Confirm
          title={p.title}
          action={p.label}
          danger={p.danger ?? false}
          pending={write.isPending}
          error={write.error?.message}
          close={() => {
            write.reset()
            ask(false)
          }}
          act={() => write.mutate(p.write)}
        >
          <p>{p.children}</p>
          <Snippet command={p.command} call={p.call} />
        </Confirm>
      )}
    </>
  )
}
