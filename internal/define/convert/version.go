package convert

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
)

// versionRounds makes one guess at a secret cost some milliseconds, as its name can be seen by all who list secrets.
const versionRounds = 50_000

// Version returns twelve hexadecimal digits that tell texts of one name apart. They are part of the name under which the host
// keeps a text, which may be a secret, so that a revision keeps its own.
func Version(name string, text []byte) string {
	key, err := pbkdf2.Key(sha256.New, string(text), []byte(name), versionRounds, 6)
	if err != nil {
		panic(err) // only FIPS 140 mode refuses, for short keys
	}
	return hex.EncodeToString(key)
}
