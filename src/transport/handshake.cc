// The two sides of the handshake, and the codes that they compare. What is read has a fixed size
// and goes into a buffer of that size; of a stranger's bytes the magic is compared as they come, so
// that who speaks another protocol is turned away before the deadline.
//
// OpenSSL computes the codes, in a library context of its own: no configuration file applies to it,
// and it costs 75 KiB and a quarter of a millisecond per endpoint, 0.7 us per code.
// Tested by test/unit/transport/handshake_test.cc.
#include "transport/handshake.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>  // getentropy
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/prng.h"

namespace mccl {
namespace {

constexpr std::string_view kKeyLabel = "mccl";
constexpr std::string_view kAcceptorRole = "mccl acceptor";
constexpr std::string_view kConnectorRole = "mccl connector";
constexpr size_t kShownBytesMax = 8;

template <typename Value>
std::string_view bytes_of(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

bool are_equal(const Mac& left, const Mac& right) {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

// Moves `bytes` towards the end of `value`; whether it is there.
template <typename Value>
Result<bool> send(Wire& wire, Value& value, size_t& bytes) {
  while (bytes < sizeof(value)) {
    const iovec piece{reinterpret_cast<std::byte*>(&value) + bytes, sizeof(value) - bytes};
    const Result<size_t> sent = wire.write({&piece, 1});
    if (!sent.is_ok()) return sent.status();
    if (sent.value() == 0) return false;
    bytes += sent.value();
  }
  bytes = 0;
  return true;
}

// One read; 0 when nothing is there.
template <typename Value>
Result<size_t> receive_part(Wire& wire, Value& value, size_t bytes) {
  const iovec piece{reinterpret_cast<std::byte*>(&value) + bytes, sizeof(value) - bytes};
  return wire.read({&piece, 1});
}

bool has_our_magic(const Hello& hello, size_t bytes) {
  const uint32_t magic = kHelloMagic;
  return std::memcmp(&hello, &magic, std::min(bytes, sizeof(magic))) == 0;
}

bool has_version(size_t bytes) {
  return bytes >= offsetof(Hello, version) + sizeof(Hello::version);
}

std::string first_bytes(const Hello& hello, size_t bytes) {
  std::string text = "first bytes";
  for (size_t index = 0; index < std::min(bytes, kShownBytesMax); ++index)
    text += fmt::format(" {:02x}", reinterpret_cast<const uint8_t*>(&hello)[index]);
  return text;
}

}  // namespace

NonceSource random_nonces() {
  return [] {
    Nonce nonce;
    // Fails only where the kernel has no random numbers at all.
    MCCL_CHECK(::getentropy(nonce.data(), nonce.size()) == 0);
    return nonce;
  };
}

NonceSource seeded_nonces(uint64_t seed) {
  return [prng = Prng(seed)]() mutable {
    const uint64_t numbers[2] = {prng.next(), prng.next()};
    Nonce nonce;
    static_assert(sizeof(numbers) == sizeof(nonce));
    std::memcpy(nonce.data(), numbers, sizeof(nonce));
    return nonce;
  };
}

struct Authenticator::Library {
  OSSL_LIB_CTX* context = OSSL_LIB_CTX_new();
  EVP_MAC* hmac = EVP_MAC_fetch(context, "HMAC", nullptr);
};

Authenticator::Authenticator() : library_(std::make_unique<Library>()) {
  MCCL_CHECK(library_->hmac != nullptr);
}

Authenticator::~Authenticator() {
  EVP_MAC_free(library_->hmac);
  OSSL_LIB_CTX_free(library_->context);
}

Mac Authenticator::authenticate(std::string_view key, std::string_view text) const {
  Mac mac;
  size_t length = 0;
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  const auto unsigned_bytes = [](std::string_view bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
  };
  EVP_MAC_CTX* run = EVP_MAC_CTX_new(library_->hmac);
  const bool is_done =
      EVP_MAC_init(run, unsigned_bytes(key), key.size(), parameters) == 1 &&
      EVP_MAC_update(run, unsigned_bytes(text), text.size()) == 1 &&
      EVP_MAC_final(run, reinterpret_cast<unsigned char*>(mac.data()), &length, mac.size()) == 1;
  EVP_MAC_CTX_free(run);
  MCCL_CHECK(is_done);  // out of memory, or a library without SHA-256
  MCCL_CHECK_EQ(length, mac.size());
  return mac;
}

Mac Authenticator::make_key(std::string_view secret, uint64_t acceptor_token) const {
  // Never null, which would mean "no new key", also when there is no secret.
  const std::string key(secret);
  return authenticate(key, std::string(kKeyLabel) + std::string(bytes_of(acceptor_token)));
}

Mac Authenticator::prove_acceptor(const Mac& key, const Hello& hello, const Hello& answer) const {
  return authenticate(bytes_of(key), std::string(kAcceptorRole) + std::string(bytes_of(hello)) +
                                         std::string(bytes_of(answer)));
}

Mac Authenticator::prove_connector(const Mac& key, const Hello& hello, const Hello& answer) const {
  return authenticate(bytes_of(key), std::string(kConnectorRole) + std::string(bytes_of(hello)) +
                                         std::string(bytes_of(answer)));
}

ConnectorHandshake::ConnectorHandshake(const Authenticator& authenticator, const Hello& hello,
                                       const Mac& key, std::string address)
    : authenticator_(authenticator), hello_(hello), key_(key), address_(std::move(address)) {}

Status ConnectorHandshake::advance(Wire& wire) {
  if (state_ == State::SendHello) {
    const Result<bool> sent = send(wire, hello_, bytes_);
    if (!sent.is_ok()) return sent.status();
    if (!sent.value()) return Status::ok();
    state_ = State::AwaitAnswer;
  }
  while (state_ == State::AwaitAnswer) {
    const Result<size_t> got = receive_part(wire, answer_, bytes_);
    if (!got.is_ok())
      return Status(got.status().code(),
                    got.status().message() +
                        " before it had shown who it is: it runs another version of mccl, it is "
                        "not mccl, or its process has just ended");
    if (got.value() == 0) return Status::ok();
    bytes_ += got.value();
    MCCL_RETURN_IF_ERROR(check_answer());
    if (bytes_ == sizeof(answer_)) {
      bytes_ = 0;
      state_ = State::Answered;
    }
  }
  if (state_ == State::SendProof) {
    const Result<bool> sent = send(wire, proof_, bytes_);
    if (!sent.is_ok()) return sent.status();
    if (sent.value()) state_ = State::Complete;
  }
  return Status::ok();
}

void ConnectorHandshake::confirm() {
  MCCL_CHECK(is_answered());
  proof_.mac = authenticator_.prove_connector(key_, hello_, answer_.hello);
  state_ = State::SendProof;
}

Status ConnectorHandshake::refuse(const std::string& text) const {
  return Status(StatusCode::Network, address_ + " " + text);
}

Status ConnectorHandshake::check_answer() {
  const Hello& theirs = answer_.hello;
  if (!has_our_magic(theirs, bytes_))
    return refuse("is not mccl (" + first_bytes(theirs, bytes_) +
                  "): another program listens where a process of this job did");
  if (has_version(bytes_) && theirs.version != kHandshakeVersion)
    return refuse(
        fmt::format("speaks version {} of the protocol, this process version {}: install "
                    "the same version of mccl on every host",
                    theirs.version, kHandshakeVersion));
  if (bytes_ < sizeof(answer_)) return Status::ok();
  if (theirs.from != hello_.to || theirs.to != hello_.from)
    return refuse(
        "is another process than the one that was looked for: that one has ended and its port was "
        "given away, or the store holds records of an earlier job");
  if (!are_equal(answer_.mac, authenticator_.prove_acceptor(key_, hello_, theirs)))
    return refuse("could not prove itself: its MCCL_SECRET differs or it is of another job");
  return Status::ok();
}

AcceptorHandshake::AcceptorHandshake(const Authenticator& authenticator, uint64_t process_id,
                                     const Mac& key)
    : authenticator_(authenticator), process_id_(process_id), key_(key) {}

AcceptorHandshake::State AcceptorHandshake::advance(Wire& wire) {
  if (state_ == State::AwaitHello) read_hello(wire);
  if (state_ == State::SendAnswer) {
    const Result<bool> sent = send(wire, answer_, bytes_);
    if (!sent.is_ok()) return refuse(Refusal::ClosedEarly, "it went before it was answered");
    if (sent.value()) state_ = State::AwaitProof;
  }
  if (state_ == State::AwaitProof) read_proof(wire);
  return state_;
}

uint64_t AcceptorHandshake::peer_process() const {
  return state_ == State::AwaitHello ? 0 : hello_.from;
}

AcceptorHandshake::State AcceptorHandshake::read_hello(Wire& wire) {
  while (bytes_ < sizeof(hello_)) {
    const Result<size_t> got = receive_part(wire, hello_, bytes_);
    if (!got.is_ok())
      return refuse(Refusal::ClosedEarly,
                    fmt::format("it closed the connection after {} bytes of its greeting", bytes_));
    if (got.value() == 0) return state_;
    has_bytes_ = true;
    bytes_ += got.value();
    if (!has_our_magic(hello_, bytes_))
      return refuse(Refusal::RandomBytes, "not mccl (" + first_bytes(hello_, bytes_) + ")");
    if (has_version(bytes_) && hello_.version != kHandshakeVersion) {
      send_refusal(wire);
      return refuse(
          Refusal::WrongVersion,
          fmt::format("it speaks version {} of the protocol, this process version {}: install the "
                      "same version of mccl on every host",
                      hello_.version, kHandshakeVersion));
    }
  }
  bytes_ = 0;
  if (hello_.to != process_id_ || hello_.from == process_id_ || hello_.from == 0) {
    send_refusal(wire);
    return refuse(Refusal::WrongId,
                  "it looks for another process: its job has ended here, or the store holds "
                  "records of an earlier one");
  }
  return state_ = State::Greeted;
}

// Whoever connected can then say what differs. It is all the same whether the bytes arrive.
void AcceptorHandshake::send_refusal(Wire& wire) {
  Answer refusal;
  size_t bytes = 0;
  (void)send(wire, refusal, bytes);
}

void AcceptorHandshake::answer(const Nonce& nonce) {
  MCCL_CHECK(state_ == State::Greeted);
  answer_.hello = Hello{.from = process_id_, .to = hello_.from, .nonce = nonce};
  answer_.mac = authenticator_.prove_acceptor(key_, hello_, answer_.hello);
  state_ = State::SendAnswer;
}

AcceptorHandshake::State AcceptorHandshake::read_proof(Wire& wire) {
  while (bytes_ < sizeof(proof_)) {
    const Result<size_t> got = receive_part(wire, proof_, bytes_);
    if (!got.is_ok())
      return refuse(Refusal::ClosedEarly, "it went when it saw our proof (" +
                                              got.status().message() +
                                              "): its MCCL_SECRET differs or it is of another job");
    if (got.value() == 0) return state_;
    bytes_ += got.value();
  }
  const Mac expected = authenticator_.prove_connector(key_, hello_, answer_.hello);
  if (!are_equal(proof_.mac, expected))
    return refuse(Refusal::BadMac,
                  "its proof is wrong: its MCCL_SECRET differs or it is of another job");
  return state_ = State::Complete;
}

AcceptorHandshake::State AcceptorHandshake::refuse(Refusal refusal, std::string reason) {
  refusal_ = refusal;
  reason_ = std::move(reason);
  return state_ = State::Refused;
}

}  // namespace mccl
