package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxSubstitute is the size of a file that ${file:PATH} reads, and of a value
// after substitution.
const maxSubstitute = 64 << 10

var substitution = regexp.MustCompile(`\$?\$\{[^}]*\}?`)

var oneFile = regexp.MustCompile(`^\$\{file:[^}]*\}$`)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand substitutes ${VAR} and ${file:PATH} in a string of the file. changed
// reports whether there was one, secret whether a file was.
func (d *decoder) expand(s string) (out string, changed, secret bool, err error) {
	var errs []error
	out = substitution.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		changed = true
		name, closed := strings.CutSuffix(m[len("${"):], "}")
		path, isFile := strings.CutPrefix(name, "file:")
		switch {
		case !closed:
			errs = append(errs, fmt.Errorf("has %.40q without its }; write $${ for ${", m))
		case isFile:
			secret = true
			text, err := d.readSecret(path)
			if err != nil {
				errs = append(errs, fmt.Errorf("needs the file of %s: %w", m, err))
			}
			return text
		case !variable.MatchString(name):
			errs = append(errs, fmt.Errorf("has %.40q, must be ${VAR} or ${file:PATH}; write $${ for ${", m))
		default:
			text, ok := d.env[name]
			if !ok {
				errs = append(errs, fmt.Errorf("needs the variable %s, which is not set", name))
			}
			return text
		}
		return ""
	})
	switch {
	case len(errs) > 0:
		return "", changed, secret, errors.Join(errs...)
	case changed && (len(out) > maxSubstitute || !utf8.ValidString(out) || strings.ContainsRune(out, 0)):
		return "", changed, secret, errors.New("must be text of at most 64 KiB after substitution")
	}
	return out, changed, secret, nil
}

// readSecret reads a small regular file: nothing that blocks or never ends.
func (d *decoder) readSecret(path string) (string, error) {
	if path == "" {
		return "", errors.New("there is no path")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(d.name), path)
	}
	data, err := readFile(path, maxSubstitute, true)
	return strings.TrimRight(string(data), "\r\n"), err
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64, regular bool) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() || regular && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %v", path, Size(limit))
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
