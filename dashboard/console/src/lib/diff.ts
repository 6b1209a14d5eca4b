import { isJSON, prettyText } from './json'

export interface DiffLine {
  sign: ' ' | '+' | '-'
  text: string
}

const most = 1500 // lines: the table of the comparison has the square of it

/** The lines that make one text of the other: JSON is compared as it is shown. null: too long. */
export function diffLines(from: string, to: string): DiffLine[] | null {
  const both = isJSON(from) && isJSON(to)
  const a = (both ? prettyText(from) : from).split('\n')
  const b = (both ? prettyText(to) : to).split('\n')
  if (a.length > most || b.length > most) return null
  // Lengths of the longest common sequences of what is left.
  const width = b.length + 1
  const table = new Uint16Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1]! + 1 : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!)
    }
  }
  const found: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ sign: ' ', text: a[i]! })
      i++
      j++
    } else if (j >= b.length || (i < a.length && table[(i + 1) * width + j]! >= table[i * width + j + 1]!)) found.push({ sign: '-', text: a[i++]! })
    else found.push({ sign: '+', text: b[j++]! })
  }
  return found
}
