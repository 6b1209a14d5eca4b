/** Copies a text. Plain HTTP is no secure context: there a field is selected and the old command used. */
export async function copy(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text)
      return true
    }
  } catch {
    // It may be forbidden; the other way may not.
  }
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'offscreen'
  const within = document.querySelector('dialog[open]') ?? document.body
  within.append(field)
  const focused = document.activeElement
  field.select()
  const done = document.execCommand('copy')
  field.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return done
}

/** Offers bytes as a file. */
export function download(name: string, data: BlobPart, type = 'application/octet-stream') {
  const url = URL.createObjectURL(new Blob([data], { type }))
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
