use mainstay_session::Fault;
use mainstay_session::admit::*;
use mainstay_wire::envelope::RequestId;

#[test]
fn a22_admission_of_policy_requests() {
    let rows = [
        // (id, in flight, free slots, what becomes of it)
        (RequestId::Int(0), false, 256, Admission::Take),
        (RequestId::Int(7), false, 1, Admission::Take),
        (RequestId::Int(7), false, 0, Admission::Deny),
        (
            RequestId::Int(7),
            true,
            5,
            Admission::Fault(Fault::DuplicateId),
        ),
        (
            RequestId::Int(7),
            true,
            0,
            Admission::Fault(Fault::DuplicateId),
        ),
        (RequestId::Int(-1), false, 5, Admission::Fault(Fault::BadId)),
        (
            RequestId::Text("1".to_owned()),
            false,
            5,
            Admission::Fault(Fault::BadId),
        ),
    ];
    for (id, in_flight, free, expected) in rows {
        assert_eq!(
            admit_inbound("network/policyRequest", &id, in_flight, free),
            expected,
            "{id:?}"
        );
    }
}

#[test]
fn other_methods_are_answered_whatever_their_id_is() {
    for id in [RequestId::Int(-1), RequestId::Int(3)] {
        assert_eq!(
            admit_inbound("fs/readFile", &id, true, 0),
            Admission::UnknownMethod
        );
    }
}
