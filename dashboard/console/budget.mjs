// Checks the sizes of dist against the budgets of the console.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const size = file => gzipSync(readFileSync(`dist/${file}`), { level: 9 }).length
const assets = readdirSync('dist/assets').map(name => `assets/${name}`)
const all = [...assets, ...readdirSync('dist').filter(name => statSync(`dist/${name}`).isFile())]
const page = readFileSync('dist/index.html', 'utf8')
const first = all.filter(file => file === 'index.html' || page.includes(file.split('/').pop()))
const sum = files => files.reduce((total, file) => total + size(file), 0)
const named = part => assets.filter(file => file.includes(`/${part}-`))
const screens = assets.filter(file => file.endsWith('.js') && !first.includes(file) && !/\/(vendor|Chart|Editor|Graph)/.test(file))
const rows = [
  ['first load', sum(first), 45],
  ['chart', sum(named('vendor-chart')), 24],
  ['graph', sum(named('vendor-graph')), 18],
  ['editor', sum(named('vendor-editor')), 135],
  ...screens.map(file => [file.replace('assets/', ''), size(file), 15]),
  ['all of dist, gzip', sum(all), 420],
  ['all of dist', all.reduce((total, file) => total + statSync(`dist/${file}`).size, 0), 1300],
]
let failed = false
for (const [what, bytes, limit] of rows) {
  const over = bytes > limit * 1024
  failed ||= over
  console.log(`${over ? 'TOO LARGE ' : ''}${what}: ${(bytes / 1024).toFixed(1)} KB of ${limit}`)
}
process.exit(failed ? 1 : 0)
