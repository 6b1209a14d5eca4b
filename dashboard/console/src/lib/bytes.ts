/** The bytes of a base64 text. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const s = atob(text)
  const b = new Uint8Array(s.length)
  for (let i = 0; i < s.length; i++) b[i] = s.charCodeAt(i)
  return b
}

export function toBase64(b: Uint8Array): string {
  let s = ''
  for (let i = 0; i < b.length; i += 8192) s += String.fromCharCode(...b.subarray(i, i + 8192))
  return btoa(s)
}

/** The text that bytes are, null if they are no UTF-8. */
export function asText(b: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(b)
  } catch {
    return null
  }
}

/** Lines of a hex dump: offset, 16 bytes, what of them is printable ASCII. */
export function* hexLines(b: Uint8Array): Generator<string> {
  for (let at = 0; at < b.length; at += 16) {
    const row = [...b.subarray(at, at + 16)]
    const hex = row.map(x => x.toString(16).padStart(2, '0'))
    const left = hex.slice(0, 8).join(' ').padEnd(23)
    const right = hex.slice(8).join(' ').padEnd(23)
    const ascii = row.map(x => (x >= 32 && x < 127 ? String.fromCharCode(x) : '.')).join('')
    yield `${at.toString(16).padStart(8, '0')}  ${left}  ${right}  ${ascii}`
  }
}
