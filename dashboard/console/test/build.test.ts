// @vitest-environment node
import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { build } from 'vite'

test('names of assets change with what is in them, and those of vendors stay: browsers keep each for a year', { timeout: 60_000 }, async () => {
  const changed = {
    name: 'a change of one text',
    transform: (code: string, id: string) => (id.endsWith('/src/strings/workers.ts') ? code.replace('Filter by id', 'Filter by identity') : null),
  }
  process.env['NODE_ENV'] = 'production' // as npm run build has it
  const built = await build({ logLevel: 'silent', build: { write: false }, plugins: [changed] })
  if (Array.isArray(built) || !('output' in built)) throw new Error('there is more than one build')
  const assets = built.output.filter(o => o.fileName.startsWith('assets/'))
  const fresh = assets.filter(o => !existsSync(`dist/${o.fileName}`))
  expect(fresh.some(o => /assets\/Workers-/.test(o.fileName))).toBe(true)
  for (const o of assets.filter(o => !fresh.includes(o))) {
    const bytes = Buffer.from(o.type === 'chunk' ? o.code : o.source)
    expect([o.fileName, bytes.equals(readFileSync(`dist/${o.fileName}`))]).toEqual([o.fileName, true])
  }
  expect(fresh.filter(o => /vendor|\.css$/.test(o.fileName)).map(o => o.fileName)).toEqual([])
})
