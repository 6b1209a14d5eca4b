// dist/SOURCE holds a hash of everything that dist is built from, so that a test without Node finds a build that was forgotten.
//   node source.mjs write   writes it
//   node source.mjs         compares
// TestSource in embed_test.go computes the same: SHA-256 over "<path>\0<length>\0<bytes>" of each file, by path.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const roots = ['index.html', 'package.json', 'package-lock.json', 'public', 'src', 'tsconfig.json', 'vite.config.ts']

function files(path) {
  try {
    return readdirSync(path).flatMap(name => files(`${path}/${name}`))
  } catch {
    return [path]
  }
}

const hash = createHash('sha256')
for (const path of roots.flatMap(files).sort((a, b) => (a < b ? -1 : 1))) {
  const bytes = readFileSync(path)
  hash.update(`${path}\0${bytes.length}\0`)
  hash.update(bytes)
}
const sum = hash.digest('hex') + '\n'
if (process.argv[2] === 'write') {
  writeFileSync('dist/SOURCE', sum)
} else if (readFileSync('dist/SOURCE', 'utf8') !== sum) {
  console.error('dist was built from other sources: run make console')
  process.exit(1)
}
