import { readdirSync, readFileSync } from 'node:fs'
import ts from 'typescript'
import { expect, test } from 'vitest'

const attributes = new Set([
  'title',
  'label',
  'placeholder',
  'aria-label',
  'hint',
  'alt',
  'more',
  'word',
  'action',
  'problem',
  'options',
  'heads',
  'intro',
  'what',
])
const members = new Set(['title', 'hint', 'text', 'label', 'doc', 'message'])

/** The same in every language: names, keys of a keyboard, notations. */
const names = new Set(['floe', 'FloQL', 'KV', 'LSN', 'API', 'UTC', 'Ctrl K', 'Ctrl Enter', 'Del', 'JSON', 'Hex', 'Base64', 'ns', 'ms', 'Esc'])

/** Whether a function that returns here makes text of numbers and times: one of lib/format. */
function formats(n: ts.Node): boolean {
  if (!n.getSourceFile().fileName.endsWith('lib/format.ts')) return false
  const f = ts.findAncestor(n, a => ts.isFunctionDeclaration(a) || ts.isArrowFunction(a)) as ts.FunctionDeclaration | ts.ArrowFunction | undefined
  return f?.type?.getText() === 'string'
}

/** Whether what stands here is seen by who looks at the page: as text, in an attribute that is read out, in a column's heading, in a toast. */
function isSeen(node: ts.Node): boolean {
  let from = node
  for (let n = node.parent; n; from = n, n = n.parent) {
    if (ts.isConditionalExpression(n)) {
      if (n.condition === from) return false
    } else if (ts.isBinaryExpression(n)) {
      const through = [ts.SyntaxKind.BarBarToken, ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.PlusToken, ts.SyntaxKind.AmpersandAmpersandToken]
      if (!through.includes(n.operatorToken.kind)) return false
    } else if (ts.isArrayLiteralExpression(n)) {
      // Of a choice, the first is the value.
      if (n.elements.length === 2 && n.elements[0] === from && ts.isArrayLiteralExpression(n.parent)) return false
    } else if (ts.isJsxExpression(n)) return !ts.isJsxAttribute(n.parent) || attributes.has(n.parent.name.getText())
    else if (ts.isJsxAttribute(n)) return attributes.has(n.name.getText())
    else if (ts.isPropertyAssignment(n)) return members.has(n.name.getText())
    else if (ts.isNewExpression(n)) return n.expression.getText() === 'Error' || n.expression.getText() === 'ApiError'
    else if (ts.isReturnStatement(n) || ts.isArrowFunction(n)) return formats(n)
    else if (ts.isCallExpression(n)) return n.expression.getText() === 'toast' && n.arguments[0] !== from
    else if (!ts.isParenthesizedExpression(n) && !ts.isTemplateSpan(n) && !ts.isTemplateExpression(n) && !ts.isAsExpression(n)) return false
  }
  return false
}

/** What of a source file somebody sees and that is written there. */
function literals(path: string, source: string): string[] {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true, path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS)
  const found: string[] = []
  const check = (node: ts.Node, text: string) => {
    const t = text.replace(/\s+/g, ' ').trim()
    if (/[a-z]{2}/i.test(t) && !names.has(t)) found.push(`${path}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1} ${t}`)
  }
  const visit = (node: ts.Node) => {
    if (ts.isJsxText(node)) check(node, node.text)
    else if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) {
      if (isSeen(node)) check(node, node.text)
    } else if (ts.isTemplateExpression(node) && isSeen(node)) check(node, [node.head, ...node.templateSpans.map(s => s.literal)].map(p => p.text).join(' '))
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

test('every text that is seen is in strings.ts or strings/', () => {
  // json.ts says to itself why a text is no JSON; strings.ts is where the others belong.
  const files = (readdirSync('src', { recursive: true }) as string[]).filter(
    f => /\.tsx?$/.test(f) && !/^strings|^lib\/json\.ts$|^api\/types\.gen\.ts$/.test(f),
  )
  expect(files.length).toBeGreaterThan(50)
  expect(files.flatMap(f => literals(f, readFileSync(`src/${f}`, 'utf8')))).toEqual([])
})

test('the check of texts finds what it is for', () => {
  const bad = [
    '<p>Nothing here</p>',
    '<p title="Read me">{x}</p>',
    '<p>{x ? "some" : say.none}</p>',
    '<Field label={`of ${x}`} />',
    '<Tabs options={[["a", "First"]]} />',
    'toast("ok", "It is done.")',
    'x = { key: "a", title: "Size" }',
  ]
  const good = [
    '<p class="dim wide">{say.x}</p>',
    '<Tabs options={[["all", say.all]]} />',
    '<kbd>Ctrl K</kbd>',
    'toast("ok", say.done)',
    '<p title={x === "some" ? say.a : say.b} />',
  ]
  const word = 'function ago(n: number): string { return n < 2 ? "now" : `${n} s ago` }'
  expect([literals('lib/format.ts', word).length, literals('lib/other.ts', word).length]).toEqual([2, 0])
  for (const b of bad) expect([b, literals('x.tsx', b).length]).toEqual([b, 1])
  for (const g of good) expect([g, literals('x.tsx', g).length]).toEqual([g, 0])
})
