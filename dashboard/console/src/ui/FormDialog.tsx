import type { ComponentChildren } from 'preact'
import { strings } from '../strings'
import { Dialog } from './Dialog'
import { Snippet } from './Snippet'

/** The state of the write that a form makes. */
export interface Writing {
  isPending: boolean
  error: { message: string } | null
}

/** A form that makes one write, with the command and the call that do the same. */
export function FormDialog(p: {
  title: string
  action: string
  wrong?: boolean
  write: Writing
  close: () => void
  act: () => void
  command: string
  call: string
  children: ComponentChildren
}) {
  const locked = p.wrong === true || p.write.isPending
  return (
    <Dialog
      title={p.title}
      close={p.close}
      submit={() => {
        if (!locked) p.act()
      }}
      footer={
        <>
          <button type="button" class="btn" onClick={p.close}>
            {strings.cancel}
          </button>
          <button class="btn primary" disabled={locked}>
            {p.action}
          </button>
        </>
      }
    >
      {p.children}
      {p.write.error && (
        <p class="crit" role="alert">
          {p.write.error.message}
        </p>
      )}
      <Snippet command={p.command} call={p.call} />
    </Dialog>
  )
}
