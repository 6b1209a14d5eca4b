// Package rawjson walks JSON as bytes, and displays bytes that are usually JSON: inputs and
// outputs, which programs may write in any format.
package rawjson
