//go:build !race

// Source text has no races to detect.

package fusebox_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const archModule = "github.com/fusebox-go/fusebox"

// archFile is one Go file of the repository.
type archFile struct {
	*ast.File
	path string // slash-separated, from the root
	test bool
}

func (f archFile) imports() (paths []string) {
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

// archFiles parses the Go files of a folder, and of those below if deep.
func archFiles(tb testing.TB, folder string, deep bool) (files []archFile) {
	tb.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != "."
			if path != folder && (!deep || hidden || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, archFile{f, filepath.ToSlash(path), strings.HasSuffix(path, "_test.go")})
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	return files
}

func archStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func archWithin(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func TestTheMachineAndTheWindowsReadNoClock(t *testing.T) {
	files := archFiles(t, "internal/window", true)
	for _, f := range archFiles(t, ".", false) {
		if f.path == "machine.go" {
			files = append(files, f)
		}
	}
	allowed := map[string][]string{
		"machine.go":      {"math", "slices", "time", archModule + "/internal/window"},
		"internal/window": {"math", "time"},
	}
	seen := 0
	for _, f := range files {
		if f.test {
			continue
		}
		seen++
		list := allowed[f.path]
		if list == nil {
			list = allowed["internal/window"]
		}
		for _, path := range f.imports() {
			if !slices.Contains(list, path) {
				t.Errorf("%s imports %s, may import %q", f.path, path, list)
			}
		}
		for _, i := range f.Imports {
			if i.Name != nil {
				t.Errorf("%s renames the import of %s: this test would not see its use", f.path, i.Path.Value)
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && s.Sel.Name != "Duration" {
				t.Errorf("%s uses time.%s: of package time it may know durations only", f.path, s.Sel.Name)
			}
			return true
		})
	}
	if seen < 4 {
		t.Errorf("%d files seen, want machine.go and the windows", seen)
	}
}

// archPolicies are the packages that import neither the root nor one another.
var archPolicies = []string{"retry", "timeout", "bulkhead", "fallback", "hedge", "limit"}

// archPublic are the packages of the root module that users import.
var archPublic = []string{".", "fuseboxadmin", "fuseboxadmin/page", "fuseboxhttp", "fuseboxmetrics", "fuseboxtest", "bulkhead", "fallback", "hedge", "limit", "retry", "timeout"}

// archPackage is what this test reads of go list's.
type archPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func archList(t *testing.T, args ...string) (packages []archPackage) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal("these tests ask the go command: ", err)
	}
	cmd := exec.CommandContext(t.Context(), goTool, append([]string{"list", "-json=ImportPath,Standard,Imports"}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p archPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestTheRootModuleNeedsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range archList(t, "-deps", "-test", "./...") {
		path, _, _ := strings.Cut(p.ImportPath, " ") // of a variant built for a test
		path = strings.TrimSuffix(strings.TrimSuffix(path, ".test"), "_test")
		if !p.Standard && !archWithin(path, archModule) {
			t.Errorf("the root module depends on %s", p.ImportPath)
		}
	}
	for _, p := range archList(t, "-deps", ".") {
		if !p.Standard && p.ImportPath != archModule && !archWithin(p.ImportPath, archModule+"/internal") {
			t.Errorf("the root package depends on %s", p.ImportPath)
		}
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && (f[0] == "require" || f[0] == "replace" || f[0] == "tool") {
			t.Errorf("go.mod has the line %q", strings.TrimSpace(line))
		}
	}
	if _, err := os.Stat("go.sum"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a go.sum beside go.mod: %v", err)
	}
}

// Policies import the standard library and what they share under internal/:
// nothing a user would notice.
func TestPoliciesImportTheStandardLibraryOnly(t *testing.T) {
	for _, policy := range archPolicies {
		for _, f := range archFiles(t, policy, true) {
			for _, path := range f.imports() {
				own := archWithin(path, archModule+"/"+policy) || archWithin(path, archModule+"/internal")
				if !f.test && !archStandard(path) && !own {
					t.Errorf("%s imports %s", f.path, path)
				}
			}
		}
	}
}

// TestImportsGoOneWay reads every Go file, those of other modules too.
func TestImportsGoOneWay(t *testing.T) {
	top := func(path string) string {
		first, rest, _ := strings.Cut(path, "/")
		if rest == "" && strings.HasSuffix(first, ".go") {
			return "" // the root
		}
		return first
	}
	adapter := func(folder string) bool {
		return strings.HasPrefix(folder, "fusebox") && folder != "fuseboxtest" && folder != "fuseboxmetrics"
	}
	ends := []string{"cmd", "bench", "examples", "verify", "tools"}
	for _, f := range archFiles(t, ".", true) {
		from := top(f.path)
		for _, path := range f.imports() {
			if !archWithin(path, archModule) {
				continue
			}
			inside := strings.TrimPrefix(strings.TrimPrefix(path, archModule), "/")
			to, _, _ := strings.Cut(inside, "/")
			switch {
			case from == to:
			case slices.Contains(ends, to):
				t.Errorf("%s imports %s, which nothing may import", f.path, path)
			case adapter(from) && to == "internal":
				t.Errorf("%s imports %s: an adapter uses the public API", f.path, path)
			case adapter(from) && adapter(to):
				t.Errorf("%s imports %s: adapters do not know each other", f.path, path)
			case from == "internal" && to == "":
				t.Errorf("%s imports %s, which imports it", f.path, path)
			}
		}
	}
}

// TestNobodySleepsInRealTime lets only files sleep that use a bubble's time.
// (The linter forbids it elsewhere.)
func TestNobodySleepsInRealTime(t *testing.T) {
	for _, f := range archFiles(t, ".", true) {
		if strings.HasPrefix(f.path, "bench/") || !f.test && f.path != "fuseboxtest/conform.go" {
			continue
		}
		if slices.Contains(f.imports(), "testing/synctest") {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				t.Errorf("%s sleeps, and imports no testing/synctest", f.path)
			}
			return true
		})
	}
}

// archVars are the package-level variables that are not errors, and why.
var archVars = map[string]string{
	"outcomeNames":     "a table of names, never written to",
	"stateNames":       "a table of names, never written to",
	"modeNames":        "a table of names, never written to",
	"causeNames":       "a table of names, never written to",
	"probeResultNames": "a table of names, never written to",
	"noWatchers":       "an empty value, immutable like every watchers",
}

func TestThereIsNoStateOfThePackage(t *testing.T) {
	files := archFiles(t, ".", false)
	files = append(files, archFiles(t, "internal", true)...)
	for _, policy := range archPolicies {
		files = append(files, archFiles(t, policy, true)...)
	}
	vars := map[string]bool{}
	for _, f := range files {
		if f.test {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s has an init", f.path)
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, s := range d.Specs {
					s := s.(*ast.ValueSpec)
					for i, name := range s.Names {
						vars[name.Name] = true
						if archVars[name.Name] == "" && name.Name != "_" && !archError(s, i) {
							t.Errorf("%s has the package-level variable %s", f.path, name.Name)
						}
					}
				}
			}
		}
	}
	for name := range archVars {
		if !vars[name] {
			t.Errorf("%s is on the list of variables and does not exist", name)
		}
	}
	for _, f := range files {
		if !f.test {
			archNoWrites(t, f, vars)
		}
	}
}

// archError reports whether the i-th variable is a sentinel error.
func archError(s *ast.ValueSpec, i int) bool {
	if !strings.HasPrefix(s.Names[i].Name, "Err") && !strings.HasPrefix(s.Names[i].Name, "err") || i >= len(s.Values) {
		return false
	}
	call, ok := s.Values[i].(*ast.CallExpr)
	if !ok {
		return false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := fun.X.(*ast.Ident)
	return ok && x.Name == "errors" && fun.Sel.Name == "New"
}

// archNoWrites reports assignments to package-level variables.
func archNoWrites(t *testing.T, f archFile, vars map[string]bool) {
	t.Helper()
	ast.Inspect(f.File, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || a.Tok == token.DEFINE {
			return true
		}
		for _, x := range a.Lhs {
			for done := false; !done; {
				switch y := x.(type) {
				case *ast.SelectorExpr:
					x = y.X
				case *ast.IndexExpr:
					x = y.X
				default:
					done = true
				}
			}
			if id, ok := x.(*ast.Ident); ok && id.Name != "_" && vars[id.Name] {
				t.Errorf("%s writes to the package-level variable %s", f.path, id.Name)
			}
		}
		return true
	})
}

// archDoc returns the documentation of a package, its examples included.
func archDoc(tb testing.TB, folder, importPath string) *doc.Package {
	tb.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		tb.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			tb.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// archName is an exported name: Name, or Type_Method, as an example calls it.
type archName struct {
	name, last string
	doc        string
}

// archNames lists the exported types, functions and methods.
func archNames(p *doc.Package) (names []archName) {
	funcs := slices.Clone(p.Funcs)
	for _, t := range p.Types {
		if !ast.IsExported(t.Name) {
			continue
		}
		names = append(names, archName{t.Name, t.Name, t.Doc})
		funcs = append(funcs, t.Funcs...)
		for _, m := range t.Methods {
			names = append(names, archName{t.Name + "_" + m.Name, m.Name, m.Doc})
		}
	}
	for _, f := range funcs {
		names = append(names, archName{f.Name, f.Name, f.Doc})
	}
	return names
}

func TestEveryExportedNameHasADocCommentThatBeginsWithIt(t *testing.T) {
	for _, folder := range archPublic {
		path := archModule + strings.TrimSuffix("/"+folder, "/.")
		p := archDoc(t, folder, path)
		if !strings.HasPrefix(p.Doc, "Package "+p.Name+" ") {
			t.Errorf("%s: the package comment begins %.30q", path, p.Doc)
		}
		for _, n := range archNames(p) {
			begin := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(n.doc, "A "), "An "), "The ")
			if !strings.HasPrefix(begin, n.last+" ") {
				t.Errorf("%s.%s: the comment begins %.30q, want its name", path, n.name, n.doc)
			}
		}
	}
	for _, folder := range archPublic {
		for _, f := range archFiles(t, folder, false) {
			if !f.test {
				archValuesDocumented(t, f)
			}
		}
	}
}

// archValuesDocumented reports exported constants and variables without a comment.
func archValuesDocumented(t *testing.T, f archFile) {
	t.Helper()
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			s := s.(*ast.ValueSpec)
			text := s.Doc.Text()
			if !g.Lparen.IsValid() {
				text = g.Doc.Text()
			}
			for _, name := range s.Names {
				if name.IsExported() && !strings.HasPrefix(text, name.Name+" ") {
					t.Errorf("%s: the comment of %s begins %.30q, want its name", f.path, name.Name, text)
				}
			}
		}
	}
}

// archTrivial are methods that an interface of the standard library, or of
// this one, explains.
var archTrivial = []string{"String", "Error", "Is", "Rejected", "RetryAfter", "Timeout", "Temporary", "MarshalText", "UnmarshalText"}

func TestEveryExportedNameHasAnExample(t *testing.T) {
	for _, folder := range archPublic {
		path := archModule + strings.TrimSuffix("/"+folder, "/.")
		have := map[string]bool{}
		for _, f := range archFiles(t, folder, false) {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && f.test && d.Recv == nil {
					if name, ok := strings.CutPrefix(d.Name.Name, "Example"); ok {
						have[archExampleOf(name)] = true
					}
				}
			}
		}
		var missing []string
		for _, n := range archNames(archDoc(t, folder, path)) {
			trivial := strings.Contains(n.name, "_") && slices.Contains(archTrivial, n.last)
			if !have[n.name] && !trivial {
				missing = append(missing, n.name)
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			t.Errorf("%s: no example for %s", path, strings.Join(missing, ", "))
		}
	}
}

// archExampleOf returns what an example is of: its name without a suffix, which
// begins with a small letter.
func archExampleOf(name string) string {
	i := strings.LastIndex(name, "_")
	if i >= 0 && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z' {
		return name[:i]
	}
	return name
}
