// Package console is the web console of the dashboard: files that are built from the TypeScript
// beside this file and committed, so that floe builds and runs without Node.js. Package
// dashboard serves them; a build with the tag noconsole leaves them out.
//
// To change the console: npm ci, npm run dev (which asks a node at 127.0.0.1:9002, or at
// FLOE_NODE), and in the end make console.
package console
