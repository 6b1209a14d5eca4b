import { defineConfig } from 'vite'

// The node that `npm run dev` shows: the dashboard of `floe demo`, or of any other.
const node = process.env['FLOE_NODE'] ?? 'http://127.0.0.1:9002'

export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: { proxy: { '/api': node, '/health': node } },
  build: {
    target: ['chrome123', 'firefox128', 'safari17.5'],
    cssTarget: ['chrome123', 'firefox128', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
    license: { fileName: 'THIRD_PARTY_LICENSES.md' },
    rolldownOptions: {
      output: {
        // What others wrote changes rarely: in chunks of its own a change of the console rewrites a few KB of dist.
        codeSplitting: {
          groups: [
            { name: 'vendor-chart', test: /node_modules[\\/]uplot/, priority: 3 },
            { name: 'vendor-editor', test: /node_modules[\\/](@codemirror|@lezer|@marijn|style-mod|w3c-keyname|crelt)/, priority: 3 },
            { name: 'vendor-graph', test: /node_modules[\\/]@dagrejs/, priority: 3 },
            { name: 'vendor', test: /node_modules[\\/](preact|@tanstack)/, priority: 3 },
            // What nearly every screen has, so that a first visit asks for few files; what the shell has of it too comes with the shell.
            {
              name: 'shell',
              test: /src[\\/](strings\.ts|strings[\\/]units|api[\\/]|lib[\\/](clipboard|format|keys|mount|prefs|router|snippets|store)\.|ui[\\/](Dialog|Icon|Panel|Skeleton|State|toasts)\.tsx)/,
              priority: 2,
            },
            { name: 'parts', test: /src[\\/]ui[\\/](Act|ByCommand|Field|FormDialog|Inspector|NoneIn|Payload|Sentence|Snippet|Table|Time)\./, priority: 1 },
          ],
        },
      },
    },
  },
})
