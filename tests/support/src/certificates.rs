//! Certificates for servers that speak TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Folder;
use crate::scratch;

/// An authority of its own with a certificate for servers on 127.0.0.1 and one for a client, made
/// with `openssl`; their files are removed when this is dropped.
#[derive(Debug)]
pub struct Certificates {
    folder: Folder,
}

impl Certificates {
    /// Makes a new authority and what it signs.
    ///
    /// # Panics
    ///
    /// When `openssl` (3.0 or later) is not installed.
    pub fn make() -> Self {
        let certificates = Self { folder: Folder(scratch::create("certificates")) };
        certificates.renew();
        certificates
    }

    /// Replaces all of them, in their files. A server uses them when it is started again.
    pub fn renew(&self) {
        let authority = ["-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"];
        self.request("ca", &authority);
        for name in ["server", "client"] {
            let subject = format!("/CN={name}");
            self.request(
                name,
                &[
                    "-CA",
                    "ca.pem",
                    "-CAkey",
                    "ca.key",
                    "-subj",
                    &subject,
                    "-addext",
                    "subjectAltName=IP:127.0.0.1",
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                ],
            );
        }
        // As ZooKeeper reads it: the key and its certificate in one file.
        let both = self.read("server.key") + &self.read("server.pem");
        fs::write(self.path("server-both.pem"), both).expect("the folder is ours");
    }

    fn request(&self, name: &str, arguments: &[&str]) {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
        let mut openssl = Command::new("openssl");
        openssl.current_dir(&self.folder.0);
        openssl.args(["req", "-x509", "-days", "2", "-nodes", "-newkey", "ec", "-pkeyopt"]);
        openssl.args(["ec_paramgen_curve:prime256v1", "-keyout", &key, "-out", &certificate]);
        let output = openssl.args(arguments).output();
        let output = output.unwrap_or_else(|err| panic!("cannot run openssl, install it: {err}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl: {said}");
    }

    /// Returns the authority's certificate, in PEM.
    pub fn authority(&self) -> String {
        self.read("ca.pem")
    }

    /// Returns the client's certificate, in PEM. Its subject is `CN=client`.
    pub fn client(&self) -> String {
        self.read("client.pem")
    }

    /// Returns the client's private key, in PEM.
    pub fn client_key(&self) -> String {
        self.read("client.key")
    }

    /// The file of the server's key and certificate, and the file of whom it trusts.
    pub(crate) fn stores(&self) -> [PathBuf; 2] {
        [self.path("server-both.pem"), self.path("ca.pem")]
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.folder.0).join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it was made")
    }
}
