import './Dialog.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { hold } from '../api/hooks'
import { strings } from '../strings'
import { Icon } from './Icon'

/** A modal dialog. Nothing behind it is refreshed while it is open. The focus goes to its first field, and back to where it was at the end. */
export function Dialog({
  title,
  close,
  children,
  wide,
  footer,
  submit,
}: {
  title: string
  close: () => void
  children: ComponentChildren
  footer?: ComponentChildren
  wide?: boolean
  submit?: () => void
}) {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const before = document.activeElement
    const d = ref.current!
    d.showModal()
    // An editor that is not loaded yet takes the focus itself.
    const first = d.querySelector<HTMLElement>('.dialog-body :is(input, select, textarea, .skeleton, [data-editor])')
    ;(first?.shadowRoot?.querySelector<HTMLElement>('.cm-content') ?? first)?.focus()
    const free = hold()
    return () => {
      free()
      d.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  return (
    <dialog
      ref={ref}
      class={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={e => {
        e.preventDefault()
        close()
      }}
      onKeyDown={e => {
        if (submit && e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
          e.preventDefault()
          submit()
        }
      }}
    >
      <form
        method="dialog"
        onSubmit={e => {
          e.preventDefault()
          submit?.()
        }}
      >
        <header>
          <h2 id={id}>{title}</h2>
        </header>
        <div class="dialog-body">{children}</div>
        {footer && <footer>{footer}</footer>}
        <button type="button" class="btn quiet dialog-close" aria-label={strings.close} onClick={close}>
          <Icon name="close" />
        </button>
      </form>
    </dialog>
  )
}

/** Asks before something that cannot be undone. The focus is on Cancel. */
export function Confirm(p: {
  title: string
  children: ComponentChildren
  action: string
  danger?: boolean
  pending: boolean
  error?: string | undefined
  close: () => void
  act: () => void
}) {
  const cancel = useRef<HTMLButtonElement>(null)
  useEffect(() => cancel.current?.focus(), [])
  return (
    <Dialog
      title={p.title}
      close={p.close}
      footer={
        <>
          <button type="button" ref={cancel} class="btn" onClick={p.close}>
            {strings.cancel}
          </button>
          <button type="button" class={p.danger === false ? 'btn primary' : 'btn primary danger'} disabled={p.pending} onClick={p.act}>
            {p.action}
          </button>
        </>
      }
    >
      {p.children}
      {p.error && (
        <p class="crit" role="alert">
          {p.error}
        </p>
      )}
    </Dialog>
  )
}
